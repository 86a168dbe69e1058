package log

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// Segment header, version 1, big-endian; see FORMAT.md.
const (
	magic         = "MMQS"
	formatVersion = 1
	headerLen     = 64

	hdrVersion    = 4
	hdrLength     = 6
	hdrNumber     = 8
	hdrFirst      = 16
	hdrPrevTerm   = 24
	hdrPrevNumber = 32
	hdrPrevEnd    = 40
	hdrSalt       = 48
	hdrReserved   = 56
	hdrCRC        = 60
)

// segmentHead is what a segment's header says. It never changes, so the owner
// and the writer both read it.
type segmentHead struct {
	number     uint64 // names the file; rises from segment to segment
	first      Index  // index the next entry had when the segment was begun
	prevTerm   Term   // term of entry first-1, 0 when first is 1
	prevNumber uint64 // number of the segment before, 0 for the very first
	prevEnd    int64  // offset where the records of that segment end
	salt       uint64 // random; seeds the checksums of the records
	seed       uint32 // derived from salt
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func seedOf(salt uint64) uint32 {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], salt)
	return crc32.Update(0, castagnoli, b[:])
}

// appendHeader appends the 64 bytes of h.
func appendHeader(dst []byte, h *segmentHead) []byte {
	at := len(dst)
	dst = append(dst, magic...)
	dst = binary.BigEndian.AppendUint16(dst, formatVersion)
	dst = binary.BigEndian.AppendUint16(dst, headerLen)
	dst = binary.BigEndian.AppendUint64(dst, h.number)
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.first))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.prevTerm))
	dst = binary.BigEndian.AppendUint64(dst, h.prevNumber)
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.prevEnd))
	dst = binary.BigEndian.AppendUint64(dst, h.salt)
	dst = binary.BigEndian.AppendUint32(dst, 0)
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[at:], castagnoli))
}

// headerFault is why a header is not valid; "" is valid.
type headerFault string

// parseHeader reads the header of the named file from b, its first 64 bytes or
// all there are. A later version is a *VersionError; anything else wrong is a
// fault.
func parseHeader(file string, b []byte) (segmentHead, headerFault, error) {
	if len(b) < headerLen {
		return segmentHead{}, headerFault(fmt.Sprintf("the file has %d bytes, less than a header", len(b))), nil
	}
	b = b[:headerLen]
	if string(b[:4]) != magic {
		if isZero(b) {
			return segmentHead{}, "the header is all zeros", nil
		}
		return segmentHead{}, "the header does not begin with " + magic, nil
	}
	sum := binary.BigEndian.Uint32(b[hdrCRC:]) == crc32.Checksum(b[:hdrCRC], castagnoli)
	if v := binary.BigEndian.Uint16(b[hdrVersion:]); v > formatVersion {
		return segmentHead{}, "", &VersionError{File: file, Version: v, Max: formatVersion, HeaderDamaged: !sum}
	}
	if !sum {
		return segmentHead{}, "the header's checksum does not match", nil
	}
	h := segmentHead{
		number:     binary.BigEndian.Uint64(b[hdrNumber:]),
		first:      Index(binary.BigEndian.Uint64(b[hdrFirst:])),
		prevTerm:   Term(binary.BigEndian.Uint64(b[hdrPrevTerm:])),
		prevNumber: binary.BigEndian.Uint64(b[hdrPrevNumber:]),
		prevEnd:    int64(binary.BigEndian.Uint64(b[hdrPrevEnd:])),
		salt:       binary.BigEndian.Uint64(b[hdrSalt:]),
	}
	h.seed = seedOf(h.salt)
	switch {
	case binary.BigEndian.Uint16(b[hdrVersion:]) != formatVersion,
		binary.BigEndian.Uint16(b[hdrLength:]) != headerLen,
		binary.BigEndian.Uint32(b[hdrReserved:]) != 0,
		h.first == 0, h.number == 0, h.prevEnd < 0:
		return segmentHead{}, "the header's checksum matches but a field is impossible", nil
	}
	return h, "", nil
}

// Names in a log's directory.
const (
	segmentSuffix  = ".seg"
	tempSuffix     = ".seg.tmp"  // a segment being created; holds no records yet
	tornSuffix     = ".seg.torn" // a newborn segment whose header was garbage, kept for a human
	preparedName   = "next.prep" // zeros, to become a segment
	segmentNameLen = 20
)

func segmentName(number uint64) string {
	return fmt.Sprintf("%0*d%s", segmentNameLen, number, segmentSuffix)
}

// parseName returns the number in a name made of 20 digits and suffix.
func parseName(name, suffix string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != segmentNameLen {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil && n > 0 && digits[0] != '+'
}

func isZero(b []byte) bool {
	for len(b) >= 8 {
		if binary.NativeEndian.Uint64(b) != 0 {
			return false
		}
		b = b[8:]
	}
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
