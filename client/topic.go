package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/mortarmq/mortarmq/codec"
)

// Topic is what the broker knows about a topic.
type Topic struct {
	Name       string
	ID         codec.TopicID // never used again after the topic is deleted
	Partitions int
	Created    bool // by this very DeclareTopic
}

// neverCount is a partition count that no topic can have: a broker caps them
// at 65,534. DECLARE with it never creates, and tells whether the topic exists.
const neverCount = 0xFFFF

// DeclareTopic creates a topic, or returns the one that has this name. partitions
// 0 means the broker's default for a new topic and any count for an existing
// one; else an existing topic with another count is refused with
// TOPIC_EXISTS_MISMATCH.
func (c *Client) DeclareTopic(ctx context.Context, name string, partitions int) (Topic, error) {
	if err := codec.CheckTopicName([]byte(name)); err != nil {
		return Topic{}, localRefusal(codec.OpDeclare, err)
	}
	if partitions < 0 || partitions >= neverCount {
		return Topic{}, fmt.Errorf("client: a topic cannot have %d partitions; give 1 to %d, or 0 for the default", partitions, neverCount-1)
	}
	return c.declare(ctx, name, uint16(partitions), 0)
}

// LookupTopic returns the topic of this name without ever creating it. The error
// wraps ErrUnknownTopic when there is none.
func (c *Client) LookupTopic(ctx context.Context, name string) (Topic, error) {
	if err := codec.CheckTopicName([]byte(name)); err != nil {
		return Topic{}, localRefusal(codec.OpDeclare, err)
	}
	_, err := c.declare(ctx, name, neverCount, 0)
	switch {
	case err == nil:
		return Topic{}, fmt.Errorf("client: the server accepted a topic with %d partitions, which MortarMQ never does", neverCount)
	case CodeOf(err) == codec.CodeQuotaExceeded:
		return Topic{}, unknownTopic(name)
	case CodeOf(err) != codec.CodeTopicExistsMismatch:
		return Topic{}, err
	}
	// It exists, or did a moment ago: 0 partitions asks for its shape.
	t, err := c.declare(ctx, name, 0, 0)
	t.Created = false
	return t, err
}

// DeleteTopic removes a topic, its dead-letter twin and everything in them. The
// error wraps ErrUnknownTopic when there is none of this name.
func (c *Client) DeleteTopic(ctx context.Context, name string) error {
	if err := codec.CheckTopicName([]byte(name)); err != nil {
		return localRefusal(codec.OpDeclare, err)
	}
	_, err := c.declare(ctx, name, 0, codec.DeclareDelete)
	if lost := (unansweredError{}); errors.As(err, &lost) && errors.Is(err, ErrUnknownTopic) {
		return nil // an earlier attempt, whose answer was lost, did it
	}
	return err
}

func (c *Client) declare(ctx context.Context, name string, partitions uint16, flags uint16) (Topic, error) {
	result, err := c.control.do(ctx, codec.OpDeclare, func(dst []byte) []byte {
		return codec.AppendDeclare(dst, &codec.Declare{Topic: []byte(name), PartitionCount: partitions, Flags: flags})
	})
	if err != nil {
		return Topic{}, err
	}
	r, err := codec.DecodeDeclareResult(result)
	if err != nil {
		return Topic{}, fmt.Errorf("client: the server sent a malformed DECLARE result: %w", err)
	}
	return Topic{Name: name, ID: r.TopicID, Partitions: int(r.PartitionCount), Created: r.Created == codec.CreatedNew}, nil
}

func unknownTopic(name string) error {
	return &Error{
		Op: codec.OpDeclare, Code: codec.CodeUnknownTopic,
		Message: fmt.Sprintf("there is no topic %q; create it with `mortarmq topics create %s`", name, name),
	}
}

// localRefusal is the refusal that a request is bound to get, without sending it.
func localRefusal(op codec.Op, err error) error {
	var e *codec.Error
	if errors.As(err, &e) {
		return &Error{Op: op, Code: e.Code, Message: e.Message}
	}
	return err
}
