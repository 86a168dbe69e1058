package coord

import (
	"fmt"
	"math"
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

// never is the deadline of what has none.
const never = time.Duration(math.MaxInt64)

// Core is the state of the control plane on one node.
type Core struct {
	cfg Config
	reg *registry

	// The rest is volatile: it is empty on a node that does not lead.
	leading bool
	term    uint64        // of the last Lead, also after Follow
	now     time.Duration // of the last Step, on the caller's monotonic clock
	ids     ids
	queue   queue
	live    map[codec.GroupID]*group
	opening map[codec.GroupID]*group // those of live that wait for GroupOpened
	members map[codec.MemberID]*member
	conns   map[uint64]*conn
	notices noticeBook
	// nextDrop is a time before which no member can have been silent for MemberTimeout.
	nextDrop time.Duration

	out []Effect // of the call that is running
}

// ids counts what is never given twice. Each begins at term<<32, above everything
// of earlier terms. The lower half of an epoch suffices for 4 billion moves in one
// term; should there be more, epochs go on to grow, and since every connection ends with the term,
// nobody is left who could mistake them for those of the next.
type ids struct {
	member codec.MemberID
	notice codec.NoticeID
	epoch  codec.OwnershipEpoch
}

// New returns an empty Core that does not lead.
func New(cfg Config) *Core {
	c := &Core{cfg: cfg.withDefaults(), reg: newRegistry()}
	c.reset()
	return c
}

func (c *Core) reset() {
	c.leading = false
	c.queue = newQueue()
	c.live = map[codec.GroupID]*group{}
	c.opening = map[codec.GroupID]*group{}
	c.members = map[codec.MemberID]*member{}
	c.conns = map[uint64]*conn{}
	c.notices = newNoticeBook()
	c.nextDrop = never
}

// Lead says that this node leads from now on, in the given term of the meta
// log, and that every record of earlier terms has been applied. All groups are
// empty. The effects are those of Follow when the node led before.
func (c *Core) Lead(term uint64) []Effect {
	if term == 0 || term > math.MaxUint32 || term <= c.term {
		panic(fmt.Sprintf("coord: Lead with term %d after term %d: terms grow and have 32 bits", term, c.term))
	}
	effects := c.Follow()
	first := term << 32
	c.leading, c.term = true, term
	c.ids.member = max(c.ids.member, codec.MemberID(first))
	c.ids.notice = max(c.ids.notice, codec.NoticeID(first))
	c.ids.epoch = max(c.ids.epoch, codec.OwnershipEpoch(first))
	return effects
}

// Follow says that this node leads no longer, or is about to stop. Everything that
// members own is handed back, memberships end, and what waits is answered with 0x2006:
// it may or may not have taken effect, and can be sent again. Requests are
// refused with 0x6005 until the next Lead.
func (c *Core) Follow() []Effect {
	c.begin()
	for cmd := range c.queue.all() {
		c.refuse(cmd, codec.CodeMutationFenced, "")
	}
	for _, g := range c.liveGroups() {
		for _, cmd := range g.waiting {
			c.refuse(cmd, codec.CodeMutationFenced, "")
		}
		for len(g.members) > 0 {
			c.endMember(g.members[0], Revoked)
		}
	}
	c.reset()
	return c.take()
}

// Leading reports whether Lead was called after the last Follow.
func (c *Core) Leading() bool { return c.leading }

// Applied returns the index of the last record that Apply took.
func (c *Core) Applied() uint64 { return c.reg.applied }

// Members returns how many members a group has now.
func (c *Core) Members(id codec.GroupID) int {
	if g := c.live[id]; g != nil {
		return len(g.members)
	}
	return 0
}

// Step takes one command at the given time of a monotonic clock and returns what follows from it.
func (c *Core) Step(now time.Duration, cmd Command) []Effect {
	c.begin()
	c.now = max(c.now, now)
	if !c.leading {
		c.refuse(cmd, codec.CodeStaleLeaderEpoch, "")
		return c.take()
	}
	switch cmd := cmd.(type) {
	case Declare:
		c.admit(cmd)
	case Subscribe:
		c.admit(cmd)
	case Heartbeat:
		c.heartbeat(cmd)
	case Leave:
		c.leave(cmd)
	case ControlAck:
		c.controlAck(cmd)
	case Disconnect:
		c.disconnect(cmd.Conn)
	case GroupOpened:
		c.groupOpened(cmd)
	case Tick:
		c.tick(cmd)
	case ProposalFailed:
		c.proposalFailed(cmd)
	default:
		panic(fmt.Sprintf("coord: Step does not know %T", cmd))
	}
	return c.take()
}

func (c *Core) begin()         { c.out = nil }
func (c *Core) emit(e Effect)  { c.out = append(c.out, e) }
func (c *Core) take() []Effect { out := c.out; c.out = nil; return out }

// refuse answers a command with a code. Commands that expect no answer get none.
func (c *Core) refuse(cmd Command, code codec.Code, message string) {
	r := Reply{Code: code, Message: message}
	switch cmd := cmd.(type) {
	case Declare:
		r.Token, r.Op = cmd.Token, codec.OpDeclare
	case Subscribe:
		r.Token, r.Op = cmd.Token, codec.OpSub
	case Heartbeat:
		r.Token, r.Op = cmd.Token, codec.OpHeartbeat
	case Leave:
		r.Token, r.Op = cmd.Token, codec.OpHeartbeat
	case ControlAck:
		r.Token, r.Op = cmd.Token, codec.OpControlAck
	default:
		return
	}
	c.emit(r)
}

// served answers a command that has no result.
func (c *Core) served(cmd Command) { c.refuse(cmd, 0, "") }
