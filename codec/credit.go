package codec

import "encoding/binary"

const (
	creditFixed      = 2 + 4 + 8 + 1 + 2 + 4 + 4
	creditResultSize = 2 + 4 + 2 + 4 + 8
)

// DecodeCredit decodes a CREDIT payload.
func DecodeCredit(p []byte) (Credit, error) {
	if len(p) != creditFixed || p[14] > CreditAdd {
		return Credit{}, ErrMalformed
	}
	m := Credit{
		SubscriptionID:  SubscriptionID(binary.BigEndian.Uint16(p)),
		MembershipEpoch: binary.BigEndian.Uint32(p[2:]),
		OwnershipEpoch:  OwnershipEpoch(binary.BigEndian.Uint64(p[6:])),
		Mode:            p[14],
		CreditCount:     binary.BigEndian.Uint16(p[15:]),
		CreditBytes:     binary.BigEndian.Uint32(p[17:]),
		Reserved:        binary.BigEndian.Uint32(p[21:]),
	}
	if m.Reserved != 0 {
		return Credit{}, ErrMalformed
	}
	return m, nil
}

// AppendCredit appends a whole CREDIT frame.
func AppendCredit(dst []byte, m *Credit) []byte {
	dst, b := frame(dst, OpCredit, creditFixed)
	binary.BigEndian.PutUint16(b, uint16(m.SubscriptionID))
	binary.BigEndian.PutUint32(b[2:], m.MembershipEpoch)
	binary.BigEndian.PutUint64(b[6:], uint64(m.OwnershipEpoch))
	b[14] = m.Mode
	binary.BigEndian.PutUint16(b[15:], m.CreditCount)
	binary.BigEndian.PutUint32(b[17:], m.CreditBytes)
	binary.BigEndian.PutUint32(b[21:], m.Reserved)
	return dst
}

// DecodeCreditResult decodes the OK result of a CREDIT.
func DecodeCreditResult(p []byte) (CreditResult, error) {
	if len(p) != creditResultSize {
		return CreditResult{}, ErrMalformed
	}
	return CreditResult{
		GrantedCount:     binary.BigEndian.Uint16(p),
		GrantedBytes:     binary.BigEndian.Uint32(p[2:]),
		OutstandingCount: binary.BigEndian.Uint16(p[6:]),
		OutstandingBytes: binary.BigEndian.Uint32(p[8:]),
		CreditEpoch:      binary.BigEndian.Uint64(p[12:]),
	}, nil
}

// AppendCreditResult appends the OK result of a CREDIT, without a frame.
func AppendCreditResult(dst []byte, r *CreditResult) []byte {
	dst, b := extend(dst, creditResultSize)
	binary.BigEndian.PutUint16(b, r.GrantedCount)
	binary.BigEndian.PutUint32(b[2:], r.GrantedBytes)
	binary.BigEndian.PutUint16(b[6:], r.OutstandingCount)
	binary.BigEndian.PutUint32(b[8:], r.OutstandingBytes)
	binary.BigEndian.PutUint64(b[12:], r.CreditEpoch)
	return dst
}
