package coord

import (
	"slices"

	"github.com/mortarmq/mortarmq/codec"
)

// tick acts on every deadline that has come.
func (c *Core) tick(cmd Tick) {
	c.notices.expire(c.now)
	c.dropSilent(cmd)
	var due []*group
	for _, g := range c.live {
		if g.wake <= c.now {
			due = append(due, g)
		}
	}
	slices.SortFunc(due, byID)
	for _, g := range due {
		c.expire(g)
	}
}

// dropSilent ends the membership of those that named their subscription in no frame for MemberTimeout (G3).
func (c *Core) dropSilent(cmd Tick) {
	if c.now < c.nextDrop {
		return
	}
	c.nextDrop = never
	var silent []codec.MemberID
	for id, m := range c.members {
		if c.now-m.seen >= c.cfg.MemberTimeout && cmd.Seen != nil {
			m.seen = max(m.seen, cmd.Seen(id))
		}
		if c.now-m.seen >= c.cfg.MemberTimeout {
			silent = append(silent, id)
		} else {
			c.nextDrop = min(c.nextDrop, m.seen+c.cfg.MemberTimeout)
		}
	}
	c.endMembers(silent, Silent)
}
