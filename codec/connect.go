package codec

import "encoding/binary"

const connectFixed = 1 + 2 + 2 + 4

// DecodeConnect decodes a CONNECT payload. A first byte other than WireVersion
// is ErrUnsupportedVersion, whatever follows: another version may look different.
func DecodeConnect(p []byte) (Connect, error) {
	if len(p) == 0 || len(p) > MaxConnectFrame-1 {
		return Connect{}, ErrMalformed
	}
	if p[0] != WireVersion {
		return Connect{}, ErrUnsupportedVersion
	}
	if len(p) < connectFixed {
		return Connect{}, ErrMalformed
	}
	m := Connect{ProtocolVersion: p[0], ClientFlags: binary.BigEndian.Uint16(p[1:])}
	end := 5 + int(binary.BigEndian.Uint16(p[3:]))
	if len(p) < end+4 || (len(p) > end+4 && m.ClientFlags == 0) {
		return Connect{}, ErrMalformed
	}
	m.Token = p[5:end:end]
	m.Reserved = binary.BigEndian.Uint32(p[end:])
	if m.Reserved != 0 {
		return Connect{}, ErrMalformed
	}
	return m, nil
}

// AppendConnect appends a whole CONNECT frame. The token may be 65,535 bytes long.
func AppendConnect(dst []byte, m *Connect) []byte {
	mustFit("CONNECT.token", len(m.Token), 0xFFFF)
	dst, b := frame(dst, OpConnect, connectFixed+len(m.Token))
	b[0] = m.ProtocolVersion
	binary.BigEndian.PutUint16(b[1:], m.ClientFlags)
	binary.BigEndian.PutUint16(b[3:], uint16(len(m.Token)))
	copy(b[5:], m.Token)
	binary.BigEndian.PutUint32(b[5+len(m.Token):], m.Reserved)
	return dst
}

// DecodePing checks a PING payload: it is empty.
func DecodePing(p []byte) error {
	if len(p) != 0 {
		return ErrMalformed
	}
	return nil
}

// AppendPing appends a whole PING frame.
func AppendPing(dst []byte) []byte {
	dst, _ = frame(dst, OpPing, 0)
	return dst
}
