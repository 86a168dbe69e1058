package log

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/env"
)

// BenchmarkAppend is the broker's load: batches handed over while earlier ones
// are on their way, so that one fdatasync covers several.
func BenchmarkAppend(b *testing.B) {
	for _, c := range []struct{ size, window int }{
		{1 << 10, 1}, {4 << 10, 64}, {64 << 10, 8}, {256 << 10, 1}, {256 << 10, 8}, {1 << 20, 8},
	} {
		b.Run(fmt.Sprintf("%dKiB/window%d", c.size>>10, c.window), func(b *testing.B) {
			benchAppend(b, c.size, c.window)
		})
	}
}

func benchAppend(b *testing.B, size, window int) {
	done := make(chan Ticket, 1<<16)
	var syncs []time.Duration
	l, err := Open(Options{
		Dir: b.TempDir(),
		OnWritten: func(upTo Ticket, err error) {
			if err != nil {
				b.Error(err)
			}
			done <- upTo
		},
		OnSync: func(d time.Duration, _ int) { syncs = append(syncs, d) },
	})
	if err != nil {
		b.Fatal(err)
	}
	data := entry(1, 1, size).Data
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	written := Ticket(0)
	for i := 0; i < b.N; i++ {
		t := l.Append([]Entry{{Term: 1, Index: l.LastIndex() + 1, Data: data}}, nil, true)
		for t-written >= Ticket(window) {
			written = <-done
		}
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	st := l.Stats()
	slices.Sort(syncs)
	b.ReportMetric(float64(st.Syncs)/float64(b.N), "fsyncs/op")
	b.ReportMetric(float64(st.SyncedBytes)/float64(st.Syncs), "bytes/fsync")
	b.ReportMetric(float64(st.PreparedRolls)/float64(st.Rolls), "prepared/roll")
	b.ReportMetric(float64(syncs[len(syncs)/2].Microseconds()), "sync-p50-us")
	b.ReportMetric(float64(syncs[len(syncs)*99/100].Microseconds()), "sync-p99-us")
}

// BenchmarkSync shows why segments are written with zeros ahead of time: the
// same appends to a file whose blocks are written, reserved, or missing.
func BenchmarkSync(b *testing.B) {
	const size = 64 << 20
	prepare := map[string]func(f env.File) error{
		"written":   func(f env.File) error { return zero(f, 0, size) },
		"reserved":  func(f env.File) error { return f.Allocate(size) },
		"extending": func(f env.File) error { return nil },
	}
	for _, n := range []int{4 << 10, 256 << 10, 1 << 20} {
		for _, how := range []string{"written", "reserved", "extending"} {
			b.Run(fmt.Sprintf("%dKiB/%s", n>>10, how), func(b *testing.B) {
				f, err := env.OS().OpenFile(filepath.Join(b.TempDir(), "f"), os.O_RDWR|os.O_CREATE, 0o600)
				if err != nil {
					b.Fatal(err)
				}
				defer f.Close()
				data := entry(1, 1, n).Data
				b.SetBytes(int64(n))
				off := int64(size)
				b.ResetTimer()
				for i := 0; i < b.N; i++ {
					if off+int64(n) > size {
						b.StopTimer()
						off = 0
						if err := f.Truncate(0); err != nil {
							b.Fatal(err)
						}
						if err := prepare[how](f); err != nil {
							b.Fatal(err)
						}
						if err := f.Sync(); err != nil {
							b.Fatal(err)
						}
						b.StartTimer()
					}
					if _, err := f.WriteAt(data, off); err != nil {
						b.Fatal(err)
					}
					if err := f.Sync(); err != nil {
						b.Fatal(err)
					}
					off += int64(n)
				}
			})
		}
	}
}

// BenchmarkOpen is the speed of a start without a snapshot.
func BenchmarkOpen(b *testing.B) {
	for _, size := range []int{1 << 10, 256 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			const total = 512 << 20
			o := Options{Dir: b.TempDir(), OnWritten: func(Ticket, error) {}}
			l, err := Open(o)
			if err != nil {
				b.Fatal(err)
			}
			data := entry(1, 1, size).Data
			batch := make([]Entry, 0, 1<<20/size)
			for i := Index(1); i <= total/Index(size); i++ {
				batch = append(batch, Entry{Term: 1, Index: i, Data: data})
				if len(batch) == cap(batch) {
					l.Append(batch, nil, true)
					batch = batch[:0]
				}
			}
			if err := l.Close(); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(total)
			b.ResetTimer()
			for b.Loop() {
				l, err := Open(o)
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				l.Close()
				b.StartTimer()
			}
		})
	}
}
