package codec

import "encoding/binary"

const (
	pullFixed = 2 + 8 + 4 + 4 + 2 + 2 + 4 + 2 + 4
	epochSize = 8
)

// Len returns the number of epochs.
func (e Epochs) Len() int { return len(e) / epochSize }

// At returns epoch i, counting from 0.
func (e Epochs) At(i int) OwnershipEpoch {
	return OwnershipEpoch(binary.BigEndian.Uint64(e[i*epochSize:]))
}

// AppendEpoch appends one epoch to dst. A PULL can carry 65,535 of them.
func AppendEpoch(dst Epochs, e OwnershipEpoch) Epochs {
	return binary.BigEndian.AppendUint64(dst, uint64(e))
}

// DecodePull decodes a PULL payload. ownership_epochs_len counts epochs, not
// bytes (V3).
func DecodePull(p []byte) (Pull, error) {
	if len(p) < pullFixed {
		return Pull{}, ErrMalformed
	}
	end := 20 + epochSize*int(binary.BigEndian.Uint16(p[18:]))
	if len(p) != end+12 {
		return Pull{}, ErrMalformed
	}
	return Pull{
		SubscriptionID:  SubscriptionID(binary.BigEndian.Uint16(p)),
		MemberID:        MemberID(binary.BigEndian.Uint64(p[2:])),
		MembershipEpoch: binary.BigEndian.Uint32(p[10:]),
		AssignmentEpoch: binary.BigEndian.Uint32(p[14:]),
		OwnershipEpochs: Epochs(p[20:end:end]),
		MaxMsgs:         binary.BigEndian.Uint16(p[end:]),
		MaxBytes:        binary.BigEndian.Uint32(p[end+2:]),
		WaitMs:          binary.BigEndian.Uint16(p[end+6:]),
		MinBytes:        binary.BigEndian.Uint32(p[end+8:]),
	}, nil
}

// AppendPull appends a whole PULL frame.
func AppendPull(dst []byte, m *Pull) []byte {
	if len(m.OwnershipEpochs)%epochSize != 0 {
		panic("codec: PULL.ownership_epochs is not made of whole epochs")
	}
	mustFit("PULL.ownership_epochs", len(m.OwnershipEpochs), 0xFFFF*epochSize)
	dst, b := frame(dst, OpPull, pullFixed+len(m.OwnershipEpochs))
	binary.BigEndian.PutUint16(b, uint16(m.SubscriptionID))
	binary.BigEndian.PutUint64(b[2:], uint64(m.MemberID))
	binary.BigEndian.PutUint32(b[10:], m.MembershipEpoch)
	binary.BigEndian.PutUint32(b[14:], m.AssignmentEpoch)
	binary.BigEndian.PutUint16(b[18:], uint16(m.OwnershipEpochs.Len()))
	copy(b[20:], m.OwnershipEpochs)
	b = b[20+len(m.OwnershipEpochs):]
	binary.BigEndian.PutUint16(b, m.MaxMsgs)
	binary.BigEndian.PutUint32(b[2:], m.MaxBytes)
	binary.BigEndian.PutUint16(b[6:], m.WaitMs)
	binary.BigEndian.PutUint32(b[8:], m.MinBytes)
	return dst
}
