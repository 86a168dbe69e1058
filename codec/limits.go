package codec

// Limits of the wire protocol (wire version 1). Neither side may raise them.
const (
	// WireVersion is the first field of CONNECT.
	WireVersion = 1

	// PrefixLen is the length field in front of every frame, in bytes.
	PrefixLen = 4
	// HeaderLen is the length field plus the op byte.
	HeaderLen = PrefixLen + 1

	// MaxFrameLen is the largest value of a frame's length field: the op byte
	// and the payload, without the length field itself.
	MaxFrameLen = 16 << 20
	// MaxValueLen caps the value of PUB and MSG. It leaves 1 KiB of the frame
	// for the other fields, the largest key and tails to come.
	MaxValueLen = 16<<20 - 1<<10
	// MaxKeyLen caps the key of PUB and MSG. Any bytes are allowed in it.
	MaxKeyLen = 255
	// MaxTopicLen caps a topic name.
	MaxTopicLen = 255
	// MaxGroupLen caps a group name (G1).
	MaxGroupLen = 255
	// MaxErrMessage caps the text of an ERR.
	MaxErrMessage = 512
	// MaxOKResult caps the result of an OK: the frame cap less op, request_op
	// and result_len.
	MaxOKResult = MaxFrameLen - 6
	// MaxConnectFrame is the largest length field of a CONNECT: the op byte, 9 bytes of
	// fields and a token of 65,535 bytes. Nothing larger is read before CONNECT (S2).
	MaxConnectFrame = 1 + 9 + 65535
)
