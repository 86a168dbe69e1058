package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mortarmq/mortarmq/config"
	"github.com/mortarmq/mortarmq/env"
)

// nodeFormat is the version of the data directory as a whole. It grows when an
// older version could no longer read what a newer one writes.
const nodeFormat = 1

// nodeFile is the content of data_dir/node: written once, at the first start.
type nodeFile struct {
	Format int    `json:"format"`
	NodeID uint64 `json:"node_id"`
	Shards int    `json:"shards"`
}

// ErrDataDir is returned, wrapped, by Start when the data directory cannot be
// used: it is held by another process, unreadable, or of a newer version.
var ErrDataDir = errors.New("data directory")

// openDataDir makes the directory if it is new, locks it and reads or writes its
// node file. The lock lives until the returned Closer is closed.
func openDataDir(fsys env.FS, cfg config.Config, shards int) (nodeFile, io.Closer, error) {
	dir := cfg.DataDir
	if err := fsys.MkdirAll(dir, 0o750); err != nil {
		return nodeFile{}, nil, fmt.Errorf("%w %s: %w", ErrDataDir, dir, err)
	}
	lock, err := fsys.Lock(filepath.Join(dir, "LOCK"))
	if err != nil {
		return nodeFile{}, nil, fmt.Errorf("%w %s: %w", ErrDataDir, dir, err)
	}
	node, err := readNode(fsys, filepath.Join(dir, "node"))
	if errors.Is(err, fs.ErrNotExist) {
		if err = refuseForeign(fsys, dir); err == nil {
			node = nodeFile{Format: nodeFormat, NodeID: cfg.NodeID, Shards: shards}
			err = writeNode(fsys, dir, node)
		}
	}
	if err == nil && node.NodeID != cfg.NodeID {
		err = fmt.Errorf("it belongs to node_id %d, the configuration says %d: correct node_id or data_dir", node.NodeID, cfg.NodeID)
	}
	if err != nil {
		return nodeFile{}, nil, errors.Join(fmt.Errorf("%w %s: %w", ErrDataDir, dir, err), lock.Close())
	}
	return node, lock, nil
}

func readNode(fsys env.FS, path string) (nodeFile, error) {
	var n nodeFile
	f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return n, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return n, err
	}
	data := make([]byte, min(size, 1<<16))
	if _, err := f.ReadAt(data, 0); err != nil && !errors.Is(err, io.EOF) {
		return n, err
	}
	if err := json.Unmarshal(data, &n); err != nil {
		return n, fmt.Errorf("the file node does not parse (%w): restore it from a backup; it was written at the first start and holds format, node_id and shards", err)
	}
	if n.Format > nodeFormat {
		return n, fmt.Errorf("the file node says format %d, this version reads up to %d: start it with the version that wrote it, or a newer one", n.Format, nodeFormat)
	}
	if n.Format < 1 || n.NodeID == 0 || n.Shards < 1 {
		return n, fmt.Errorf("the file node holds impossible numbers (%s): restore it from a backup", data)
	}
	return n, nil
}

// refuseForeign keeps a lost node file from being replaced silently beside data
// whose shard count it held.
func refuseForeign(fsys env.FS, dir string) error {
	names, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == "meta" || len(name) > 6 && name[:6] == "shard-" {
			return fmt.Errorf("there is data (%s) but no file node: restore it from a backup; it holds {\"format\":1,\"node_id\":…,\"shards\":…}", name)
		}
	}
	return nil
}

func writeNode(fsys env.FS, dir string, n nodeFile) error {
	data, err := json.Marshal(n)
	if err != nil {
		return err
	}
	tmp, path := filepath.Join(dir, "node.tmp"), filepath.Join(dir, "node")
	f, err := fsys.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o640)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(append(data, '\n'), 0); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fsys.Rename(tmp, path); err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}
