package coord

import (
	"errors"
	"fmt"

	"github.com/mortarmq/mortarmq/codec"
)

// declare serves a DECLARE or proposes what it asks for. Order of checks: name,
// existence and count, quotas. It runs again from the start when it had to wait.
func (c *Core) declare(cmd Declare) {
	if err := codec.CheckTopicName(cmd.Req.Topic); err != nil {
		c.refuseErr(cmd, err)
		return
	}
	remove := cmd.Req.Flags&codec.DeclareDelete != 0
	t, exists := c.TopicByName(string(cmd.Req.Topic))
	count := cmd.Req.PartitionCount
	switch {
	case exists && count != 0 && count != t.Partitions && remove:
		c.refuse(cmd, codec.CodeTopicExistsMismatch,
			fmt.Sprintf("topic %s has %d partitions; delete it with %d or 0", t.Name, t.Partitions, t.Partitions))
	case exists && count != 0 && count != t.Partitions:
		c.refuse(cmd, codec.CodeTopicExistsMismatch,
			fmt.Sprintf("topic %s has %d partitions; declare it with %d or 0", t.Name, t.Partitions, t.Partitions))
	case exists && remove:
		c.propose(cmd, topicDeleted{ID: t.ID})
	case exists:
		c.replyDeclare(cmd, t, codec.CreatedExisted)
	case remove:
		c.refuse(cmd, codec.CodeUnknownTopic,
			fmt.Sprintf("there is no topic %s to delete; `mortarmq topics list` shows those there are, `mortarmq topics create NAME` makes one", cmd.Req.Topic))
	default:
		c.create(cmd)
	}
}

// create proposes a new topic if the quotas allow it (T1).
func (c *Core) create(cmd Declare) {
	count := cmd.Req.PartitionCount
	if count == 0 {
		count = c.cfg.DefaultPartitions
	}
	switch {
	case count > c.cfg.MaxPartitions:
		c.refuse(cmd, codec.CodeQuotaExceeded,
			fmt.Sprintf("%d partitions are too many for one topic; ask for at most %d", count, c.cfg.MaxPartitions))
	case c.reg.partitions+int(count) > c.cfg.MaxTotalPartitions:
		c.refuse(cmd, codec.CodeQuotaExceeded,
			fmt.Sprintf("the topics have %d partitions, %d are the most this broker allows; ask for at most %d or have topics deleted",
				c.reg.partitions, c.cfg.MaxTotalPartitions, c.cfg.MaxTotalPartitions-c.reg.partitions))
	case c.reg.nextSource > lastSource:
		c.refuse(cmd, codec.CodeQuotaExceeded, "all 32767 pairs of topic ids have been given out, and ids are never used again; use an existing topic")
	default:
		c.propose(cmd, topicCreated{ID: c.reg.nextSource, Name: string(cmd.Req.Topic), Partitions: count})
	}
}

func (c *Core) replyDeclare(cmd Declare, t Topic, created uint8) {
	c.emit(Reply{Token: cmd.Token, Op: codec.OpDeclare, Declare: codec.DeclareResult{
		TopicID: t.ID, PartitionCount: t.Partitions, Created: created,
	}})
}

// refuseErr answers with the code and text of a codec.Error.
func (c *Core) refuseErr(cmd Command, err error) {
	var e *codec.Error
	if !errors.As(err, &e) {
		panic(fmt.Sprintf("coord: %v is not a codec.Error", err))
	}
	c.refuse(cmd, e.Code, e.Message)
}
