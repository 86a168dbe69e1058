package log

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/mortarmq/mortarmq/env"
)

// FuzzScanner reads any bytes as a segment: it must not panic, and what it calls
// a record must be one, byte for byte.
func FuzzScanner(f *testing.F) {
	for _, data := range fuzzSeeds(f) {
		f.Add(data, false)
		f.Add(data, true)
	}
	f.Fuzz(func(t *testing.T, data []byte, sealed bool) {
		if sealed {
			data = seal(data)
		}
		h, fault, err := parseHeader("f", data[:min(len(data), headerLen)])
		if err != nil || fault != "" {
			if h != (segmentHead{}) {
				t.Fatalf("a bad header gives %+v", h)
			}
			h = segmentHead{number: 1, first: 1, salt: 1, seed: seedOf(1)}
		} else if again := appendHeader(nil, &h); !bytes.Equal(again, data[:headerLen]) {
			t.Fatalf("the header %x is written as %x", data[:headerLen], again)
		}
		if len(data) < headerLen {
			return
		}
		sc := newScanner(bytes.NewReader(data), &h, int64(len(data)), nil)
		for {
			off := sc.off
			r, payload, end, reason, err := sc.next()
			if err != nil {
				t.Fatal(err)
			}
			if end == scanGoesOn || end == scanMark {
				again := appendRecord(nil, h.seed, &r, payload)
				again = append(again, payload...)
				again = append(again, padding[:(8-len(payload)%8)%8]...)
				if !bytes.Equal(again, data[off:off+int64(len(again))]) {
					t.Fatalf("record %+v at %d is not what stands there", r, off)
				}
			}
			if end == scanGoesOn {
				continue
			}
			if (end == scanInvalid) != (reason != "") {
				t.Fatalf("end %d with reason %q", end, reason)
			}
			break
		}
		rest, err := sc.survey(sc.off)
		if err != nil {
			t.Fatal(err)
		}
		if rest.proof == 0 && !isZero(data[rest.end:]) || rest.end > int64(len(data)) {
			t.Fatalf("bytes behind %d are not zero", rest.end)
		}
	})
}

// FuzzOpen opens a log whose newest segment is any bytes: it must not panic, and
// a log it accepts must open again, clean and the same.
func FuzzOpen(f *testing.F) {
	for _, data := range fuzzSeeds(f) {
		f.Add(data, false)
		f.Add(data, true)
	}
	f.Fuzz(func(t *testing.T, data []byte, sealed bool) {
		if sealed {
			data = seal(data)
		}
		disk := env.NewMemFS()
		disk.MkdirAll("/log", 0o700)
		if err := writeFile(disk, "/log/"+segmentName(1), data); err != nil {
			t.Fatal(err)
		}
		o := Options{
			Dir: "/log", FS: disk, Rand: env.NewRand(1), SegmentMaxBytes: MinSegmentBytes, OnWritten: func(Ticket, error) {},
		}
		before := snapshot(t, disk)
		l, err := Open(o)
		if err != nil {
			if !sameFiles(before, snapshot(t, disk)) {
				t.Fatalf("Open changed a log it refused: %v", err)
			}
			return
		}
		last, hs := l.LastIndex(), l.HardState()
		all, err := l.Entries(1, last+1, 1<<30)
		if err != nil {
			t.Fatalf("Entries: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if l, err = Open(o); err != nil {
			t.Fatalf("second Open: %v", err)
		}
		defer l.Close()
		again, err := l.Entries(1, last+1, 1<<30)
		if err != nil || !model(all).equal(again) || l.HardState() != hs || l.Stats().TornTails != 0 {
			t.Fatalf("second Open: %d entries, first %d, %v, %+v", len(again), len(all), err, l.Stats())
		}
	})
}

// seal returns data with every checksum made right, so that the fuzzer gets
// behind them.
func seal(data []byte) []byte {
	data = bytes.Clone(data)
	if len(data) < headerLen {
		return data
	}
	binary.BigEndian.PutUint32(data[hdrCRC:], crc32.Checksum(data[:hdrCRC], castagnoli))
	seed := seedOf(binary.BigEndian.Uint64(data[hdrSalt:]))
	if _, fault, err := parseHeader("f", data); fault != "" || err != nil {
		seed = seedOf(1)
	}
	for b := data[headerLen:]; len(b) >= recordLen; {
		r := record{
			length: binary.BigEndian.Uint32(b) % 256, kind: recordKind(b[recKind]), typ: b[recType],
			durable: binary.BigEndian.Uint32(b[recDurable:]),
			term:    Term(binary.BigEndian.Uint64(b[recTerm:])), index: Index(binary.BigEndian.Uint64(b[recIndex:])),
		}
		size := paddedLen(int(r.length))
		if size > int64(len(b)) {
			break
		}
		payload := b[recordLen : recordLen+r.length]
		clear(b[recordLen+r.length : size])
		appendRecord(b[:0], seed, &r, payload)
		b = b[size:]
	}
	return data
}

// fuzzSeeds are the stored sample and a segment with every kind of end.
func fuzzSeeds(f *testing.F) [][]byte {
	var seeds [][]byte
	names, err := filepath.Glob(sampleDir + "/*" + segmentSuffix)
	if err != nil || len(names) == 0 {
		f.Fatalf("no sample: %v", err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		data = data[:min(len(data), 4096)]
		seeds = append(seeds, data, data[:len(data)-3], append(bytes.Clone(data), make([]byte, 100)...))
		torn := bytes.Clone(data)
		torn[len(torn)/2] ^= 1
		seeds = append(seeds, torn)
	}
	return append(seeds, nil, make([]byte, 200))
}
