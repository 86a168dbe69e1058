package coord

import (
	"bytes"
	"iter"

	"github.com/mortarmq/mortarmq/codec"
)

// queue orders the commands that change metadata: one record is on its way to the
// meta log, commands behind it wait if they need a record too, or if they are about the same
// topic or group as one that waits. So a connection's DECLARE DELETE and
// the SUB behind it have their effects in that order.
type queue struct {
	record  []byte  // on its way; nil: none
	current Command // that asked for it; nil when its connection is gone
	waiting []Command
	// How many commands, with current, are about a topic (DECLARE) or a group (SUB).
	topics map[string]int
	groups map[groupKey]int
}

func newQueue() queue {
	return queue{topics: map[string]int{}, groups: map[groupKey]int{}}
}

// mark counts a command in or out.
func (q *queue) mark(cmd Command, by int) {
	switch cmd := cmd.(type) {
	case Declare:
		count(q.topics, string(cmd.Req.Topic), by)
	case Subscribe:
		count(q.groups, keyOf(cmd), by)
	}
}

func count[K comparable](m map[K]int, key K, by int) {
	if m[key] += by; m[key] == 0 {
		delete(m, key)
	}
}

func keyOf(cmd Subscribe) groupKey { return groupKey{cmd.Req.TopicID, string(cmd.Req.Group)} }

// all returns the commands that have not been answered, oldest first.
func (q *queue) all() iter.Seq[Command] {
	return func(yield func(Command) bool) {
		if q.current != nil && !yield(q.current) {
			return
		}
		for _, cmd := range q.waiting {
			if !yield(cmd) {
				return
			}
		}
	}
}

// forget takes out the commands of a connection that is gone.
func (q *queue) forget(conn uint64) {
	if q.current != nil && tokenOf(q.current).Conn == conn {
		q.mark(q.current, -1)
		q.current = nil
	}
	kept := q.waiting[:0]
	for _, cmd := range q.waiting {
		if tokenOf(cmd).Conn == conn {
			q.mark(cmd, -1)
		} else {
			kept = append(kept, cmd)
		}
	}
	clear(q.waiting[len(kept):])
	q.waiting = kept
}

func tokenOf(cmd Command) Token {
	switch cmd := cmd.(type) {
	case Declare:
		return cmd.Token
	case Subscribe:
		return cmd.Token
	}
	return Token{}
}

// admit runs a command, or lets it wait for those before it.
func (c *Core) admit(cmd Command) {
	busy := false
	switch cmd := cmd.(type) {
	case Declare:
		busy = c.queue.topics[string(cmd.Req.Topic)] > 0
	case Subscribe:
		t, ok := c.reg.topic(cmd.Req.TopicID)
		busy = ok && c.queue.topics[t.Name] > 0 || c.queue.groups[keyOf(cmd)] > 0
	}
	if busy {
		c.wait(cmd)
		return
	}
	c.run(cmd)
}

func (c *Core) run(cmd Command) {
	switch cmd := cmd.(type) {
	case Declare:
		c.declare(cmd)
	case Subscribe:
		c.subscribe(cmd)
	}
}

// wait puts a command, with its own copy of its bytes, behind the record that is on its way.
func (c *Core) wait(cmd Command) {
	if len(c.queue.waiting) >= c.cfg.MaxWaiting {
		c.refuse(cmd, codec.CodeBackpressure, "too many metadata changes are waiting; send this one again after a pause")
		return
	}
	cmd = owned(cmd)
	c.queue.waiting = append(c.queue.waiting, cmd)
	c.queue.mark(cmd, 1)
}

// owned returns the command with copies of its byte slices.
func owned(cmd Command) Command {
	switch cmd := cmd.(type) {
	case Declare:
		cmd.Req.Topic = bytes.Clone(cmd.Req.Topic)
		return cmd
	case Subscribe:
		cmd.Req.Group = bytes.Clone(cmd.Req.Group)
		return cmd
	}
	return cmd
}

// propose asks for a record on behalf of a command, which is answered once it is applied.
// With one on its way already the command waits and is run again from the start.
func (c *Core) propose(cmd Command, rec any) {
	if c.queue.record != nil {
		c.wait(cmd)
		return
	}
	data := appendRecord(nil, rec)
	if len(data) > c.cfg.MaxRecord {
		c.refuse(cmd, codec.CodeMutationNotPackable, "")
		return
	}
	c.queue.record = data
	c.queue.current = owned(cmd)
	c.queue.mark(c.queue.current, 1)
	c.emit(Propose{Record: bytes.Clone(data)})
}

// committed looks whether a record is the one on its way, and ends its command:
// with what it asked for, or with 0x2006 when the record no longer fitted.
func (c *Core) committed(data []byte, fitted bool, about Topic) {
	if !c.leading || !bytes.Equal(data, c.queue.record) {
		return
	}
	cmd := c.finish()
	if cmd == nil {
		return // its connection is gone
	}
	if !fitted {
		c.refuse(cmd, codec.CodeMutationFenced, "")
		return
	}
	switch cmd := cmd.(type) {
	case Declare:
		c.replyDeclare(cmd, about, codec.CreatedNew) // also for DELETE (T2)
	case Subscribe:
		c.subscribe(cmd) // the group exists now: it is opened
	}
}

// finish makes room for the next record and returns the command of this one.
func (c *Core) finish() Command {
	cmd := c.queue.current
	c.queue.record, c.queue.current = nil, nil
	if cmd != nil {
		c.queue.mark(cmd, -1)
	}
	return cmd
}

// drain runs what waits, up to the first command that puts a record on its way.
func (c *Core) drain() {
	q := &c.queue
	for q.record == nil && len(q.waiting) > 0 {
		cmd := q.waiting[0]
		q.waiting[0] = nil
		if q.waiting = q.waiting[1:]; len(q.waiting) == 0 {
			q.waiting = nil
		}
		q.mark(cmd, -1)
		c.run(cmd)
	}
}

func (c *Core) proposalFailed(f ProposalFailed) {
	if c.queue.record == nil {
		return
	}
	if cmd := c.finish(); cmd != nil {
		c.refuse(cmd, f.Code, f.Message)
	}
	c.drain()
}
