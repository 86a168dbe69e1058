package shard

// trimmed brings the state in line with a log that begins later than before: the
// bytes of earlier messages are gone, everything else that is known of them stays.
// A group whose next messages are gone goes on at the first that is left.
func (c *Core) trimmed() {
	first := c.log.FirstIndex()
	for _, parts := range c.topics {
		for _, p := range parts {
			if p == nil {
				continue
			}
			p.earliest = max(p.earliest, p.index.trim(first, p.committed))
			for _, l := range p.ledgers {
				c.skipTo(l)
			}
		}
	}
}

// skipTo moves a ledger over what is gone.
func (c *Core) skipTo(l *ledger) {
	skipped, returned := l.skipTo(l.part.earliest)
	for _, n := range returned {
		l.owner.sub.Credit.Return(n)
	}
	if skipped == 0 {
		return
	}
	c.markLedger(l)
	c.warn("retention took messages that a group had not settled; it goes on behind them",
		"topic", l.part.topic, "partition", l.part.id, "group", l.group, "messages", skipped, "next", l.part.earliest)
}
