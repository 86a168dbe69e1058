package coord

// Apply takes the next committed record of the meta log. Records come in the
// order of their indexes; one at or below Applied is ignored, so a log may be replayed over a snapshot
// from any point before it. What follows for members counts its time from the last Step.
//
// The error is a *RecordError; then nothing was changed, and the node cannot go on.
func (c *Core) Apply(index uint64, data []byte) ([]Effect, error) {
	if index <= c.reg.applied {
		return nil, nil
	}
	rec, why, err := parseRecord(data)
	if err != nil {
		return nil, &RecordError{Index: index, Why: why, Err: err}
	}
	c.begin()
	about := c.about(rec)
	why = c.reg.apply(rec)
	c.reg.applied = index
	if why != "" {
		c.emit(Dropped{Index: index, Why: why})
	} else {
		c.tell(rec, about)
	}
	c.committed(data, why == "", about)
	c.drain()
	return c.take(), nil
}

// about returns the topic that a record makes or deletes.
func (c *Core) about(rec any) Topic {
	switch rec := rec.(type) {
	case topicCreated:
		return Topic(rec)
	case topicDeleted:
		return c.reg.topics[rec.ID]
	}
	return Topic{}
}

// tell says what a record changed.
func (c *Core) tell(rec any, about Topic) {
	switch rec.(type) {
	case topicCreated:
		c.emit(TopicAdded{about})
	case topicDeleted:
		c.farewell(about)
		c.emit(TopicRemoved{about})
	}
}
