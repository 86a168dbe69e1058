package coord

import (
	"fmt"
	"strings"

	"github.com/mortarmq/mortarmq/codec"
)

// num writes an id or epoch as TERM.COUNTER.
func num[T ~uint64](n T) string { return fmt.Sprintf("%d.%d", uint64(n)>>32, uint32(n)) }

// show writes an effect on one line.
func show(e Effect) string {
	switch e := e.(type) {
	case Propose:
		rec, why, err := parseRecord(e.Record)
		if err != nil {
			return "propose " + why
		}
		return "propose " + showRecord(rec)
	case Reply:
		return fmt.Sprintf("reply   c%d/%d %v %s", e.Conn, e.Slot, e.Op, showResult(e))
	case TopicAdded:
		return fmt.Sprintf("topic   +%d/%d %s x%d", e.Topic.ID, e.Topic.ID.Twin(), e.Topic.Name, e.Topic.Partitions)
	case TopicRemoved:
		return fmt.Sprintf("topic   -%d/%d %s x%d", e.Topic.ID, e.Topic.ID.Twin(), e.Topic.Name, e.Topic.Partitions)
	case OpenGroup:
		return fmt.Sprintf("open    g%d %s on topic %d x%d policy %d", e.Group.ID, e.Group.Name, e.Group.Topic, e.Partitions, e.Group.StartPolicy)
	case MemberJoined:
		return fmt.Sprintf("joined  m%s c%d sub %d g%d credit %d/%d", num(e.Member), e.Conn, e.Subscription, e.Group.ID, e.CreditCount, e.CreditBytes)
	case MemberGone:
		return fmt.Sprintf("gone    m%s c%d %v", num(e.Member), e.Conn, e.Reason)
	case Notify:
		n := e.Notice
		kind := map[uint8]string{codec.NoticeAssign: "ASSIGN", codec.NoticeRevoke: "REVOKE"}[n.Kind]
		p := fmt.Sprint(n.Partition)
		if n.Partition == codec.AnyPartition {
			p = "*"
		}
		return fmt.Sprintf("notice  n%s c%d m%s %s g%d t%d p%s @%s epochs %d/%d", num(n.NoticeID), e.Conn, num(n.MemberID), kind,
			n.GroupID, n.TopicID, p, num(n.OwnershipEpoch), n.MembershipEpoch, n.AssignmentEpoch)
	case Own:
		return fmt.Sprintf("own     g%d t%d p%d m%s @%s", e.Group, e.Topic, e.Partition, num(e.Member), num(e.Epoch))
	case Disown:
		how := "handed back"
		if e.Fail {
			how = "failed"
		}
		return fmt.Sprintf("disown  g%d t%d p%d m%s @%s %s: %v", e.Group, e.Topic, e.Partition, num(e.Member), num(e.Epoch), how, e.Reason)
	case Epochs:
		return fmt.Sprintf("epochs  m%s membership %d..%d assignment %d..%d", num(e.Member),
			e.Membership.Confirmed, e.Membership.Told, e.Assignment.Confirmed, e.Assignment.Told)
	case OwnedSet:
		var parts []string
		for _, o := range e.Owned {
			parts = append(parts, fmt.Sprintf("%d@%s", o.Partition, num(o.Epoch)))
		}
		return fmt.Sprintf("set     m%s [%s]", num(e.Member), strings.Join(parts, " "))
	case Dropped:
		return fmt.Sprintf("dropped %d %s", e.Index, e.Why)
	}
	return fmt.Sprintf("%#v", e)
}

func showRecord(rec any) string {
	switch rec := rec.(type) {
	case topicCreated:
		return fmt.Sprintf("topic %d/%d %s x%d", rec.ID, rec.ID.Twin(), rec.Name, rec.Partitions)
	case topicDeleted:
		return fmt.Sprintf("delete topic %d/%d", rec.ID, rec.ID.Twin())
	case groupCreated:
		return fmt.Sprintf("group %d %s on topic %d policy %d", rec.ID, rec.Name, rec.Topic, rec.StartPolicy)
	}
	return fmt.Sprintf("%#v", rec)
}

func showResult(r Reply) string {
	switch {
	case r.Code != 0 && r.Message == "":
		return r.Code.String()
	case r.Code != 0:
		return r.Code.String() + ": " + r.Message
	case r.Op == codec.OpDeclare:
		return fmt.Sprintf("OK topic %d x%d created %d", r.Declare.TopicID, r.Declare.PartitionCount, r.Declare.Created)
	case r.Op == codec.OpSub:
		return fmt.Sprintf("OK sub %d m%s epochs %d/%d", r.Sub.SubscriptionID, num(r.Sub.MemberID), r.Sub.MembershipEpoch, r.Sub.AssignmentEpoch)
	}
	return "OK"
}
