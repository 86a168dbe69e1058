package conformance

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// The limits of wire-protocol section 1, written down a second time on purpose.
const (
	maxFrame      = 16 << 20
	maxValue      = 16<<20 - 1024
	maxKey        = 255
	maxErrMessage = 512
	maxPreConnect = 65545 // S2: the largest CONNECT
	wireVersion   = 1
	allPartitions = 0xFFFF
)

const (
	opNone       byte = 0x00
	opConnect    byte = 0x01
	opDeclare    byte = 0x02
	opPub        byte = 0x03
	opSub        byte = 0x04
	opAck        byte = 0x05
	opNack       byte = 0x06
	opPing       byte = 0x07
	opErr        byte = 0x08
	opOK         byte = 0x09
	opMsg        byte = 0x0A
	opPull       byte = 0x0B
	opHeartbeat  byte = 0x0C
	opNotice     byte = 0x0D
	opControlAck byte = 0x0E
	opCredit     byte = 0x0F
)

// opName is for messages only; an unknown op is shown as its number.
func opName(op byte) string {
	names := [...]string{"0x00", "CONNECT", "DECLARE", "PUB", "SUB", "ACK", "NACK", "PING", "ERR", "OK", "MSG", "PULL", "HEARTBEAT", "NOTICE", "CONTROL_ACK", "CREDIT"}
	if int(op) < len(names) {
		return names[op]
	}
	return fmt.Sprintf("0x%02x", op)
}

const (
	codeBadLength       uint16 = 0x0001
	codeUnknownOp       uint16 = 0x0002
	codeMalformed       uint16 = 0x0003
	codeVersion         uint16 = 0x0004
	codeNotAuth         uint16 = 0x0005
	codeAuthFailed      uint16 = 0x0006
	codeAuthTimeout     uint16 = 0x0007
	codeUnknownTopic    uint16 = 0x0008
	codeUnknownPart     uint16 = 0x0009
	codeInvalidTopic    uint16 = 0x000B
	codeSeqGap          uint16 = 0x0010
	codeSeqExpired      uint16 = 0x0011
	codeSeqInvalid      uint16 = 0x0013
	codeStaleGeneration uint16 = 0x0020
	codeNotOwner        uint16 = 0x0021
	codeStaleOwner      uint16 = 0x0022
	codeUnknownDelivery uint16 = 0x0023
	codeMemberLimit     uint16 = 0x0024
	codeAssignLimit     uint16 = 0x0025
	codeUnknownMember   uint16 = 0x0026
	codeDLQOverflow     uint16 = 0x0030
	codeTopicMismatch   uint16 = 0x2001
	codeGroupMismatch   uint16 = 0x2002
	codeUnknownGroup    uint16 = 0x2005
	codeBackpressure    uint16 = 0x4001
	codeQuota           uint16 = 0x4002
	codeRate            uint16 = 0x4003
	codeExceedsCredit   uint16 = 0x4005
	codeNoCredit        uint16 = 0x4006
	codeSlowConsumer    uint16 = 0x4007
)

const (
	declareDelete   uint16 = 1 // T2
	subNoCreate     uint16 = 1 // G2
	ackProgress     uint16 = 1
	unknownFlag     uint16 = 0x8000 // a bit no op of v0 knows
	msgDeadLetter   uint16 = 1      // V12
	kindAssign      uint8  = 0
	kindRevoke      uint8  = 1
	resultOK        uint8  = 0
	resultStale     uint8  = 1
	resultError     uint8  = 2
	nackRetry       uint8  = 0
	nackReject      uint8  = 1
	nackRelease     uint8  = 2
	fromEarliest    uint8  = 0
	fromLatest      uint8  = 1
	creditSet       uint8  = 0
	creditAdd       uint8  = 1
	stateActive     uint8  = 0
	stateLeave      uint8  = 1
	pubDeduplicated uint8  = 1
)

// w builds a payload field by field, big-endian.
type w []byte

func (b w) u8(v uint8) w   { return append(b, v) }
func (b w) u16(v uint16) w { return binary.BigEndian.AppendUint16(b, v) }
func (b w) u32(v uint32) w { return binary.BigEndian.AppendUint32(b, v) }
func (b w) u64(v uint64) w { return binary.BigEndian.AppendUint64(b, v) }
func (b w) raw(v []byte) w { return append(b, v...) }

// build puts length and op in front of a payload.
func build(op byte, payload []byte) []byte {
	return header(uint32(1+len(payload)), op, payload)
}

// header builds a frame whose announced length may be a lie.
func header(length uint32, op byte, payload []byte) []byte {
	b := make([]byte, 0, 5+len(payload))
	b = binary.BigEndian.AppendUint32(b, length)
	b = append(b, op)
	return append(b, payload...)
}

type connect struct {
	version  uint8
	flags    uint16
	token    []byte
	reserved uint32
	tail     []byte
}

func (m connect) payload() []byte {
	return w{}.u8(m.version).u16(m.flags).u16(uint16(len(m.token))).raw(m.token).u32(m.reserved).raw(m.tail)
}
func (m connect) frame() []byte { return build(opConnect, m.payload()) }

type declare struct {
	topic string
	count uint16
	flags uint16
	tail  []byte
}

func (m declare) payload() []byte {
	return w{}.u16(uint16(len(m.topic))).raw([]byte(m.topic)).u16(m.count).u16(m.flags).raw(m.tail)
}
func (m declare) frame() []byte { return build(opDeclare, m.payload()) }

type pub struct {
	topic, partition uint16
	producer, seq    uint64
	flags            uint16
	key, value       []byte
	tail             []byte
}

func (m pub) payload() []byte {
	b := make(w, 0, 28+len(m.key)+len(m.value)+len(m.tail))
	return b.u16(m.topic).u16(m.partition).u64(m.producer).u64(m.seq).u16(m.flags).
		u16(uint16(len(m.key))).raw(m.key).u32(uint32(len(m.value))).raw(m.value).raw(m.tail)
}
func (m pub) frame() []byte { return build(opPub, m.payload()) }

type sub struct {
	group            string
	topic, partition uint16
	policy           uint8
	count            uint16
	bytes            uint32
	flags            uint16
	tail             []byte
}

// subTo is the usual SUB: from the beginning, all partitions, default credit.
func subTo(topic uint16, group string) sub {
	return sub{group: group, topic: topic, partition: allPartitions}
}

func (m sub) payload() []byte {
	return w{}.u16(uint16(len(m.group))).raw([]byte(m.group)).u16(m.topic).u16(m.partition).
		u8(m.policy).u16(m.count).u32(m.bytes).u16(m.flags).raw(m.tail)
}
func (m sub) frame() []byte { return build(opSub, m.payload()) }

// settle is an ACK or a NACK; reason travels in the NACK only.
type settle struct {
	sub, topic, partition uint16
	seq, delivery, epoch  uint64
	reason                uint8
	flags                 uint16
	tail                  []byte
}

func (m settle) fixed() w {
	return w{}.u16(m.sub).u16(m.topic).u16(m.partition).u64(m.seq).u64(m.delivery).u64(m.epoch)
}
func (m settle) ack() []byte  { return build(opAck, m.fixed().u16(m.flags).raw(m.tail)) }
func (m settle) nack() []byte { return build(opNack, m.fixed().u8(m.reason).u16(m.flags).raw(m.tail)) }

type pull struct {
	sub      uint16
	member   uint64
	mem, asg uint32
	epochs   []uint64
	maxMsgs  uint16
	maxBytes uint32
	waitMS   uint16
	minBytes uint32
	tail     []byte
}

func (m pull) frame() []byte {
	b := w{}.u16(m.sub).u64(m.member).u32(m.mem).u32(m.asg).u16(uint16(len(m.epochs)))
	for _, e := range m.epochs {
		b = b.u64(e)
	}
	return build(opPull, b.u16(m.maxMsgs).u32(m.maxBytes).u16(m.waitMS).u32(m.minBytes).raw(m.tail))
}

type heartbeat struct {
	sub      uint16
	member   uint64
	mem, asg uint32
	state    uint8
	tail     []byte
}

func (m heartbeat) frame() []byte {
	return build(opHeartbeat, w{}.u16(m.sub).u64(m.member).u32(m.mem).u32(m.asg).u8(m.state).raw(m.tail))
}

type controlAck struct {
	id       uint64
	kind     uint8
	group    uint16
	mem, asg uint32
	epoch    uint64
	result   uint8
	tail     []byte
}

func (m controlAck) frame() []byte {
	return build(opControlAck, w{}.u64(m.id).u8(m.kind).u16(m.group).u32(m.mem).u32(m.asg).u64(m.epoch).u8(m.result).raw(m.tail))
}

type credit struct {
	sub      uint16
	mem      uint32
	epoch    uint64
	mode     uint8
	count    uint16
	bytes    uint32
	reserved uint32
	tail     []byte
}

func (m credit) frame() []byte {
	return build(opCredit, w{}.u16(m.sub).u32(m.mem).u64(m.epoch).u8(m.mode).u16(m.count).u32(m.bytes).u32(m.reserved).raw(m.tail))
}

func ping() []byte { return build(opPing, nil) }

func errFrame(code uint16, request byte, message string) []byte {
	return build(opErr, w{}.u16(code).u8(request).u16(uint16(len(message))).raw([]byte(message)))
}

func okFrame(request byte, result []byte) []byte {
	return build(opOK, w{}.u8(request).u32(uint32(len(result))).raw(result))
}

// frame is one received frame; payload belongs to whoever holds it.
type frame struct {
	op      byte
	payload []byte
}

func (f frame) String() string { return opName(f.op) + " " + brief(build(f.op, f.payload)) }

// brief is hex, cut after 96 bytes.
func brief(b []byte) string {
	if len(b) <= 96 {
		return hex.EncodeToString(b)
	}
	return fmt.Sprintf("%s… (%d bytes)", hex.EncodeToString(b[:96]), len(b))
}

// r takes a payload apart; a field beyond the end sets bad.
type r struct {
	b   []byte
	bad bool
}

func (d *r) take(n int) []byte {
	if d.bad || n > len(d.b) {
		d.bad = true
		return make([]byte, min(n, 8))
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}
func (d *r) u8() uint8   { return d.take(1)[0] }
func (d *r) u16() uint16 { return binary.BigEndian.Uint16(d.take(2)) }
func (d *r) u32() uint32 { return binary.BigEndian.Uint32(d.take(4)) }
func (d *r) u64() uint64 { return binary.BigEndian.Uint64(d.take(8)) }

// end is the verdict: everything was there and nothing is left.
func (d *r) end(what string) error {
	if d.bad {
		return fmt.Errorf("%s is truncated", what)
	}
	if len(d.b) > 0 {
		return fmt.Errorf("%s has %d bytes behind its last field", what, len(d.b))
	}
	return nil
}

type errMsg struct {
	code    uint16
	request byte
	message string
}

func decodeErr(p []byte) (m errMsg, err error) {
	d := r{b: p}
	m.code, m.request = d.u16(), d.u8()
	m.message = string(d.take(int(d.u16())))
	return m, d.end("ERR")
}

type okMsg struct {
	request byte
	result  []byte
}

func decodeOK(p []byte) (m okMsg, err error) {
	d := r{b: p}
	m.request = d.u8()
	m.result = d.take(int(d.u32()))
	return m, d.end("OK")
}

type declareResult struct {
	topic, count uint16
	created      uint8
}

func decodeDeclareResult(p []byte) (m declareResult, err error) {
	d := r{b: p}
	m.topic, m.count, m.created = d.u16(), d.u16(), d.u8()
	return m, d.end("DECLARE result")
}

type pubResult struct {
	seq         uint64
	durability  uint8
	leaderEpoch uint64
	commit      uint64
	flags       uint8
}

func decodePubResult(p []byte) (m pubResult, err error) {
	d := r{b: p}
	m.seq, m.durability, m.leaderEpoch, m.commit, m.flags = d.u64(), d.u8(), d.u64(), d.u64(), d.u8()
	return m, d.end("PUB result")
}

type subResult struct {
	sub      uint16
	member   uint64
	mem, asg uint32
}

func decodeSubResult(p []byte) (m subResult, err error) {
	d := r{b: p}
	m.sub, m.member, m.mem, m.asg = d.u16(), d.u64(), d.u32(), d.u32()
	return m, d.end("SUB result")
}

type creditResult struct {
	grantedCount     uint16
	grantedBytes     uint32
	outstandingCount uint16
	outstandingBytes uint32
	epoch            uint64
}

func decodeCreditResult(p []byte) (m creditResult, err error) {
	d := r{b: p}
	m.grantedCount, m.grantedBytes = d.u16(), d.u32()
	m.outstandingCount, m.outstandingBytes, m.epoch = d.u16(), d.u32(), d.u64()
	return m, d.end("CREDIT result")
}

type notice struct {
	id        uint64
	kind      uint8
	group     uint16
	mem, asg  uint32
	epoch     uint64
	topic     uint16
	partition uint16
	member    uint64
}

func decodeNotice(p []byte) (m notice, err error) {
	d := r{b: p}
	m.id, m.kind, m.group, m.mem, m.asg, m.epoch = d.u64(), d.u8(), d.u16(), d.u32(), d.u32(), d.u64()
	m.topic, m.partition, m.member = d.u16(), d.u16(), d.u64()
	return m, d.end("NOTICE")
}

// origin is the tail of a dead letter (V12).
type origin struct {
	topic, partition uint16
	seq              uint64
	attempts         uint16
	reason           uint8
	group            string
}

type message struct {
	sub, topic, partition uint16
	seq, delivery         uint64
	attempt               uint16
	epoch                 uint64
	producer, producerSeq uint64
	flags                 uint16
	key, value            []byte
	origin                *origin // only with flags bit0
}

func decodeMsg(p []byte) (m message, err error) {
	d := r{b: p}
	m.sub, m.topic, m.partition = d.u16(), d.u16(), d.u16()
	m.seq, m.delivery, m.attempt, m.epoch = d.u64(), d.u64(), d.u16(), d.u64()
	m.producer, m.producerSeq, m.flags = d.u64(), d.u64(), d.u16()
	m.key = d.take(int(d.u16()))
	m.value = d.take(int(d.u32()))
	if m.flags&msgDeadLetter != 0 {
		o := &origin{topic: d.u16(), partition: d.u16(), seq: d.u64(), attempts: d.u16(), reason: d.u8()}
		o.group = string(d.take(int(d.u16())))
		m.origin = o
	}
	return m, d.end("MSG")
}

// fnv1a32 is P7's hash, from its definition.
func fnv1a32(key []byte) uint32 {
	h := uint32(0x811C9DC5)
	for _, c := range key {
		h = (h ^ uint32(c)) * 0x01000193
	}
	return h
}
