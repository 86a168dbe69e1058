package codec

import "fmt"

// The shape of every payload as data. CheckPrefix and Explain walk it; the
// decoders are its straight-line twins, and a fuzz test holds them together.

// role says what a field's number means to the fields behind it.
type role uint8

const (
	plain role = iota
	sized      // that many units of bytes follow at once
	flags      // decides whether unknown bytes may follow the last field
)

// field is one number of a payload and, when sized, the bytes behind it.
type field struct {
	name        string
	size        int // bytes of the number
	role        role
	least, most uint64 // the range of the number
	unit        int    // sized: bytes per unit
}

// layout is the payload of an op.
type layout struct {
	fields []field
	known  uint16  // the flag bits this version knows
	extra  uint16  // the known bit that announces extraFields
	more   []field // what follows then
}

func u8(name string) field  { return field{name: name, size: 1, most: 0xFF} }
func u16(name string) field { return field{name: name, size: 2, most: 0xFFFF} }
func u32(name string) field { return field{name: name, size: 4, most: 0xFFFF_FFFF} }
func u64(name string) field { return field{name: name, size: 8, most: 1<<64 - 1} }

func within(f field, least, most uint64) field {
	f.least, f.most = least, most
	return f
}

func bytesOf(f field, most uint64, unit int) field {
	f.role, f.most, f.unit = sized, most, unit
	return f
}

func flagsOf(name string) field {
	f := u16(name)
	f.role = flags
	return f
}

// layouts is indexed by op and never written.
var layouts = [...]layout{
	OpConnect: {fields: []field{
		within(u8("protocol_version"), WireVersion, WireVersion), flagsOf("client_flags"),
		bytesOf(u16("token_len"), 0xFFFF, 1), within(u32("reserved"), 0, 0)}},
	OpDeclare: {known: DeclareDelete, fields: []field{
		bytesOf(u16("topic_len"), MaxTopicLen, 1), u16("partition_count"), flagsOf("flags")}},
	OpPub: {fields: []field{
		u16("topic_id"), u16("partition"), u64("producer_id"), u64("producer_seq"), flagsOf("flags"),
		bytesOf(u16("key_len"), MaxKeyLen, 1), bytesOf(u32("value_len"), MaxValueLen, 1)}},
	OpSub: {known: SubNoCreate, fields: []field{
		bytesOf(u16("group_len"), MaxGroupLen, 1), u16("topic_id"),
		within(u16("partition"), uint64(AnyPartition), uint64(AnyPartition)),
		within(u8("start_policy"), 0, uint64(StartLatest)), u16("credit_count"), u32("credit_bytes"), flagsOf("flags")}},
	OpAck: {known: AckProgress, fields: []field{
		u16("subscription_id"), u16("topic_id"), u16("partition"), u64("seq"), u64("delivery_id"),
		u64("ownership_epoch"), flagsOf("flags")}},
	OpNack: {fields: []field{
		u16("subscription_id"), u16("topic_id"), u16("partition"), u64("seq"), u64("delivery_id"),
		u64("ownership_epoch"), u8("reason"), flagsOf("flags")}},
	OpPing: {},
	OpErr: {fields: []field{
		u16("code"), u8("request_op"), bytesOf(u16("message_len"), MaxErrMessage, 1)}},
	OpOK: {fields: []field{
		within(u8("request_op"), uint64(OpConnect), uint64(OpCredit)), bytesOf(u32("result_len"), MaxOKResult, 1)}},
	OpMsg: {known: MsgDeadLetter, extra: MsgDeadLetter,
		fields: []field{
			u16("subscription_id"), u16("topic_id"), u16("partition"), u64("sequence"), u64("delivery_id"),
			u16("attempt"), u64("ownership_epoch"), u64("producer_id"), u64("producer_seq"), flagsOf("flags"),
			bytesOf(u16("key_len"), MaxKeyLen, 1), bytesOf(u32("value_len"), MaxValueLen, 1)},
		more: []field{
			u16("origin_topic_id"), u16("origin_partition"), u64("origin_sequence"), u16("attempts"), u8("reason"),
			bytesOf(u16("group_len"), MaxGroupLen, 1)}},
	OpPull: {fields: []field{
		u16("subscription_id"), u64("member_id"), u32("membership_epoch"), u32("assignment_epoch"),
		bytesOf(u16("ownership_epochs_len"), 0xFFFF, epochSize),
		u16("max_msgs"), u32("max_bytes"), u16("wait_ms"), u32("min_bytes")}},
	OpHeartbeat: {fields: []field{
		u16("subscription_id"), u64("member_id"), u32("membership_epoch"), u32("assignment_epoch"),
		within(u8("state"), 0, uint64(HeartbeatLeave))}},
	OpNotice: {fields: []field{
		u64("notice_id"), within(u8("kind"), 0, uint64(NoticeRevoke)), u16("group_id"), u32("membership_epoch"),
		u32("assignment_epoch"), u64("ownership_epoch"), u16("topic_id"), u16("partition"), u64("member_id")}},
	OpControlAck: {fields: []field{
		u64("notice_id"), within(u8("notice_kind"), 0, uint64(NoticeRevoke)), u16("group_id"), u32("membership_epoch"),
		u32("assignment_epoch"), u64("ownership_epoch"), within(u8("result"), 0, uint64(ControlError))}},
	OpCredit: {fields: []field{
		u16("subscription_id"), u32("membership_epoch"), u64("ownership_epoch"),
		within(u8("mode"), 0, uint64(CreditAdd)), u16("credit_count"), u32("credit_bytes"), within(u32("reserved"), 0, 0)}},
}

// hasFlags reports whether the op has a flags field, so that unknown bytes may
// follow the last field when it says so (S3).
func (l *layout) hasFlags() bool {
	for i := range l.fields {
		if l.fields[i].role == flags {
			return true
		}
	}
	return false
}

// span returns the least and the most bytes that fields take.
func span(fields []field) (least, most int) {
	for i := range fields {
		f := &fields[i]
		least += f.size
		most += f.size
		if f.role == sized {
			most += int(f.most) * f.unit
		}
	}
	return least, most
}

// fault is why a payload is refused; the zero fault is none.
type fault struct {
	kind  faultKind
	field *field // nil for the payload as a whole
	value uint64 // the number, as far as it is known
	least int    // tooShort: the bytes it takes at least
	extra int    // tooLong: the bytes too many at least
}

type faultKind uint8

const (
	noFault faultKind = iota
	badVersion
	outOfRange // a number outside its range or over its cap
	tooShort   // the fields do not fit into the payload
	tooLong    // bytes behind the last field that no flag declares
)

// CheckPrefix looks at an unfinished frame of op: the payload bytes that have
// arrived and the payload's announced length. It returns the error that the
// whole frame is bound to end in, or nil as long as some rest could change the
// verdict: make the payload valid or, for a CONNECT, fail it with the other code. With the
// whole payload its verdict is the decoder's. It allocates nothing, and its
// cost does not depend on the payload's length.
func CheckPrefix(op Op, prefix []byte, total int) error {
	switch f := findFault(op, prefix, total); f.kind {
	case noFault:
		return nil
	case badVersion:
		return ErrUnsupportedVersion
	default:
		return ErrMalformed
	}
}

// Explain says in one sentence what is wrong with a payload, for the text of
// an ERR, or "" when CheckPrefix finds nothing. It repeats numbers of the
// payload but never its contents.
func Explain(op Op, prefix []byte, total int) string {
	f := findFault(op, prefix, total)
	name := op.String()
	if f.field != nil {
		name += "." + f.field.name
	}
	switch f.kind {
	case noFault:
		return ""
	case badVersion:
		return fmt.Sprintf("%s is %d; this broker speaks version %d.", name, f.value, WireVersion)
	case outOfRange:
		if f.field.least == f.field.most {
			return fmt.Sprintf("%s must be %d; fix the client.", name, f.field.most)
		}
		return fmt.Sprintf("%s must be %d to %d; fix the client.", name, f.field.least, f.field.most)
	case tooShort:
		return fmt.Sprintf("The payload of %s has %d bytes, but its fields take at least %d; fix its lengths.", op, total, f.least)
	default:
		return fmt.Sprintf("The payload of %s has at least %d bytes behind its last field that no flag declares; leave them out.", op, f.extra)
	}
}

// findFault is the one walk over a payload that is there in part.
func findFault(op Op, p []byte, total int) fault {
	if op == OpConnect {
		// Another version's CONNECT may have another shape: only its size
		// limit (S2) and its first byte may be judged before the version.
		switch {
		case total == 0:
			return fault{kind: tooShort, least: connectFixed}
		case total > MaxConnectFrame-1:
			return fault{kind: tooLong, extra: total - (MaxConnectFrame - 1)}
		case len(p) == 0:
			return fault{}
		case p[0] != WireVersion:
			return fault{kind: badVersion, field: &layouts[op].fields[0], value: uint64(p[0])}
		}
	}
	l := &layouts[op]
	w := walk{p: p, total: total, tail: l.hasFlags()}
	w.least, w.most = span(l.fields)
	if f := w.room(0, 0); f.kind != noFault {
		return f
	}
	if op == OpPull && (total-w.least)%epochSize != 0 {
		return fault{kind: tooLong, extra: (total - w.least) % epochSize}
	}
	open, f := w.walk(l.fields, l)
	if w.more && !open && f.kind == noFault {
		_, f = w.walk(l.more, l)
	}
	return f
}

// walk is the state of findFault. At any time the payload consists of off
// bytes of walked fields, then least to most bytes of fields to come, then,
// only with tail, any number of unknown bytes.
type walk struct {
	p           []byte
	total       int
	off         int
	least, most int
	tail        bool
	more        bool // the extra fields follow
}

// walk walks fields until one is wrong or not there in full (open).
func (w *walk) walk(fields []field, l *layout) (open bool, _ fault) {
	for i := range fields {
		if open, f := w.step(&fields[i], l); open || f.kind != noFault {
			return open, f
		}
	}
	return false, fault{}
}

// step walks one field. open means that bytes are missing to go on.
func (w *walk) step(f *field, l *layout) (open bool, _ fault) {
	lo, hi, whole := w.number(f.size)
	if hi < f.least || lo > f.most {
		return false, fault{kind: outOfRange, field: f, value: lo}
	}
	w.off += f.size
	w.least -= f.size
	w.most -= f.size
	switch f.role {
	case sized:
		w.most -= int(f.most) * f.unit
		hi = min(hi, f.most)
		if bad := w.room(int(lo)*f.unit, int(hi)*f.unit); bad.kind != noFault {
			return false, bad
		}
		w.off += int(lo) * f.unit
	case flags:
		if !whole {
			break // the last byte may still declare a tail
		}
		w.tail = uint16(lo)&^l.known != 0
		if uint16(lo)&l.extra != 0 {
			least, most := span(l.more)
			w.least += least
			w.most += most
			w.more = true
		}
		if bad := w.room(0, 0); bad.kind != noFault {
			return false, bad
		}
	}
	return !whole, fault{}
}

// number reads the next number as far as it is there: it lies between lo and
// hi, and whole says that these are equal because nothing is missing.
func (w *walk) number(size int) (lo, hi uint64, whole bool) {
	for i := range size {
		lo <<= 8
		hi = hi<<8 | 0xFF
		if w.off+i < len(w.p) {
			b := uint64(w.p[w.off+i])
			lo |= b
			hi = hi&^0xFF | b
		}
	}
	return lo, hi, w.off+size <= len(w.p)
}

// room checks that the payload's length can come out when the field at hand
// takes lo to hi bytes.
func (w *walk) room(lo, hi int) fault {
	if least := w.off + lo + w.least; least > w.total {
		return fault{kind: tooShort, least: least}
	}
	if most := w.off + hi + w.most; !w.tail && most < w.total {
		return fault{kind: tooLong, extra: w.total - most}
	}
	return fault{}
}
