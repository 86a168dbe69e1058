package coord

import (
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

// Token says where an answer goes. Core only echoes it; Conn is also the identity
// of a connection: never 0, never reused.
type Token struct {
	Conn uint64
	Slot uint64 // the request's number on its connection
}

// Command is an input of Step: one of the types of this file. The byte slices
// in it are the caller's again when Step returns.
type Command interface{ command() }

// Declare is a DECLARE: create, look up or delete a topic.
type Declare struct {
	Token
	Req codec.Declare
}

// Subscribe is a SUB.
type Subscribe struct {
	Token
	Req codec.Sub
}

// Heartbeat is a HEARTBEAT of either state, with all of G8's checks.
type Heartbeat struct {
	Token
	Req codec.Heartbeat
}

// Leave is a HEARTBEAT with state LEAVE whose numbers the caller has checked
// against the published ranges already.
type Leave struct {
	Token
	Member codec.MemberID
}

// ControlAck is a CONTROL_ACK.
type ControlAck struct {
	Token
	Req codec.ControlAck
}

// Disconnect says that a connection is gone: the last command with its Conn. Its memberships end at
// once; what it still waits for is not answered.
type Disconnect struct{ Conn uint64 }

// GroupOpened is the answer to OpenGroup: every partition has the group's floor.
// With a Code it failed: the SUBs that wait for it are answered with it, and the next one tries again.
type GroupOpened struct {
	Topic   codec.TopicID
	Group   codec.GroupID
	Code    codec.Code
	Message string
}

// Tick lets time pass: deadlines are looked at by nothing else. Once a second is enough for the rules.
type Tick struct {
	// Seen returns when a frame last named the member's subscription, on the clock of Step. It is
	// asked only about members that Core itself has not heard of for MemberTimeout. nil: Core
	// knows of every frame.
	Seen func(codec.MemberID) time.Duration
}

// ProposalFailed says that the record of the last Propose was not committed, or
// that nobody knows. The command behind it is answered with the code. If the record is committed after all, Apply still takes it.
type ProposalFailed struct {
	Code    codec.Code
	Message string // "" means the code's hint
}

func (Declare) command()        {}
func (Subscribe) command()      {}
func (Heartbeat) command()      {}
func (Leave) command()          {}
func (ControlAck) command()     {}
func (Disconnect) command()     {}
func (GroupOpened) command()    {}
func (Tick) command()           {}
func (ProposalFailed) command() {}
