package broker

import (
	"crypto/rand"
	"encoding/hex"
	"time"

	"golang.org/x/sys/unix"
)

// diskEvery is how often the free space is looked at. At 1 GB/s a second eats a
// quarter of the smallest sensible reserve four times over; the reserve is
// there for acknowledgements, not for the last byte.
const diskEvery = 250 * time.Millisecond

// disks watches the free space until the broker stops.
func (b *Broker) disks() {
	defer b.watchers.Done()
	tick := time.NewTicker(diskEvery)
	defer tick.Stop()
	for {
		select {
		case <-b.quit:
			return
		case <-tick.C:
			b.watchDisk()
		}
	}
}

// watchDisk compares the free space with the reserve (0x4004).
func (b *Broker) watchDisk() {
	free, err := freeBytes(b.cfg.DataDir)
	if err != nil {
		b.log.Warn("the free disk space cannot be read", "data_dir", b.cfg.DataDir, "err", err)
		return
	}
	low := free < b.cfg.DiskReserveBytes
	if b.state.diskLow.Swap(low) != low {
		if low {
			b.log.Warn("free disk space is under disk_reserve_bytes: PUB and DECLARE are refused until there is more",
				"free", free, "disk_reserve_bytes", b.cfg.DiskReserveBytes)
		} else {
			b.log.Info("free disk space is above disk_reserve_bytes again: PUB and DECLARE are served", "free", free)
		}
	}
}

func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// diagnosticID is a short id that stands both in an answer and in the log.
func diagnosticID() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}
