package coord

import (
	"fmt"

	"github.com/mortarmq/mortarmq/codec"
)

// Effect is an output of Apply, Step, Lead and Follow: one of the types of this
// file. The caller carries effects out in order. An effect and all it holds is the caller's and never changes.
type Effect interface{ effect() }

// Propose asks for a record to be committed to the meta log. There is no other
// Propose until Apply has seen this record (or an equal one that had been given up before), or
// ProposalFailed or Follow was called.
type Propose struct{ Record []byte }

// Reply answers a command.
type Reply struct {
	Token
	Op      codec.Op
	Code    codec.Code          // 0: served
	Message string              // ERR text; "" means the code's hint
	Declare codec.DeclareResult // for a served DECLARE
	Sub     codec.SubResult     // for a served SUB
	Member  codec.MemberID      // for a served SUB or LEAVE
}

// TopicAdded says that a source topic and its twin exist now.
type TopicAdded struct{ Topic Topic }

// TopicRemoved says that a source topic, its twin and the groups of both exist no longer.
type TopicRemoved struct{ Topic Topic }

// OpenGroup asks the shards to make sure that every partition of the topic has the
// group's ledger, starting by the policy where it is new. GroupOpened answers it.
type OpenGroup struct {
	Group      Group
	Partitions uint16
}

// MemberJoined introduces a member. It stands before the Reply to its SUB.
type MemberJoined struct {
	Token
	Member       codec.MemberID
	Subscription codec.SubscriptionID
	Group        Group
	CreditCount  uint16 // as in the SUB
	CreditBytes  uint32
}

// MemberGone says that a membership has ended. Its partitions were disowned
// before, and no effect names it afterwards.
type MemberGone struct {
	Member codec.MemberID
	Conn   uint64
	Reason Reason
}

// Notify sends a NOTICE to a member's connection. It never stands before the Reply to the member's SUB.
type Notify struct {
	Member codec.MemberID
	Conn   uint64
	Notice codec.Notice
}

// Own starts the delivery of a partition to a member.
type Own struct {
	Group     codec.GroupID
	Topic     codec.TopicID
	Partition codec.Partition
	Member    codec.MemberID
	Epoch     codec.OwnershipEpoch
}

// Disown ends what an Own with the same fields started. With Fail the attempts
// of what is in flight have failed, else it is handed back (V8).
type Disown struct {
	Group     codec.GroupID
	Topic     codec.TopicID
	Partition codec.Partition
	Member    codec.MemberID
	Epoch     codec.OwnershipEpoch
	Fail      bool
	Reason    Reason
}

// Epochs is the range of epochs that are current for a member (G4). It stands
// before the Notify that tells a new one, and before the Reply to what confirmed one.
type Epochs struct {
	Member                 codec.MemberID
	Membership, Assignment Range
}

// Range goes from the last epoch a member confirmed to the last it was told.
type Range struct{ Confirmed, Told uint32 }

// Contains reports whether epoch is current.
func (r Range) Contains(epoch uint32) bool { return epoch >= r.Confirmed && epoch <= r.Told }

// OwnedSet is everything that a member owns, ascending by partition. It follows
// every Own and Disown of a member that stays.
type OwnedSet struct {
	Member codec.MemberID
	Owned  []Owned
}

// Owned is a partition that a member has confirmed.
type Owned struct {
	Partition codec.Partition
	Epoch     codec.OwnershipEpoch
}

// Dropped reports a committed record that no longer fitted when it was applied,
// and changed nothing: one that was proposed under an older leader, or had been given up (0x2006). For the log.
type Dropped struct {
	Index uint64
	Why   string
}

func (Propose) effect()      {}
func (Reply) effect()        {}
func (TopicAdded) effect()   {}
func (TopicRemoved) effect() {}
func (OpenGroup) effect()    {}
func (MemberJoined) effect() {}
func (MemberGone) effect()   {}
func (Notify) effect()       {}
func (Own) effect()          {}
func (Disown) effect()       {}
func (Epochs) effect()       {}
func (OwnedSet) effect()     {}
func (Dropped) effect()      {}

// Reason says why an ownership or a membership ended.
type Reason uint8

// The reasons of Disown and MemberGone.
const (
	Revoked Reason = iota + 1 // handed back: a confirmed REVOKE, or this node leads no longer
	Left                      // handed back: the member left
	Lost                      // failed: the connection is gone
	Silent                    // failed: the member did not name its subscription for MemberTimeout
	Fenced                    // failed: the member did not confirm a REVOKE for NoticeTimeout
	Deleted                   // the topic is gone
)

// fails reports whether the attempts of what is in flight fail (V8).
func (r Reason) fails() bool { return r == Lost || r == Silent || r == Fenced }

// String returns the reason in one word.
func (r Reason) String() string {
	switch r {
	case Revoked:
		return "revoked"
	case Left:
		return "left"
	case Lost:
		return "lost"
	case Silent:
		return "silent"
	case Fenced:
		return "fenced"
	case Deleted:
		return "deleted"
	}
	return fmt.Sprintf("reason %d", uint8(r))
}
