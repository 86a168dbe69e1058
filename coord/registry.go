package coord

import (
	"iter"
	"maps"
	"slices"

	"github.com/mortarmq/mortarmq/codec"
)

// Topic is a source topic with its twin.
type Topic struct {
	ID         codec.TopicID // of the source; the twin's is ID.Twin()
	Name       string        // of the source; the twin's is Name + codec.TwinSuffix (T3)
	Partitions uint16        // of each of the two
}

// Group is a consumer group of a topic, or of a twin.
type Group struct {
	ID          codec.GroupID
	Topic       codec.TopicID
	Name        string
	StartPolicy uint8 // codec.StartEarliest or codec.StartLatest
}

const (
	firstSource codec.TopicID = 1
	lastSource  codec.TopicID = 0xFFFD // of pair 32767, whose twin is 0xFFFE
	maxGroupID  codec.GroupID = 0xFFFF
)

type groupKey struct {
	topic codec.TopicID
	name  string
}

// registry is the durable part: a function of the records applied so far.
type registry struct {
	applied    uint64        // index of the last record applied
	nextSource codec.TopicID // of the next topic: above every id there ever was; above lastSource: none is left
	lastGroup  codec.GroupID // the id given last; the next is looked for behind it
	partitions int           // of all source topics

	topics     map[codec.TopicID]Topic // by the source's id
	names      map[string]codec.TopicID
	groups     map[codec.GroupID]Group
	groupNames map[groupKey]codec.GroupID
}

func newRegistry() *registry {
	return &registry{
		nextSource: firstSource,
		topics:     map[codec.TopicID]Topic{},
		names:      map[string]codec.TopicID{},
		groups:     map[codec.GroupID]Group{},
		groupNames: map[groupKey]codec.GroupID{},
	}
}

// topic returns the topic that id, a source or a twin, belongs to.
func (r *registry) topic(id codec.TopicID) (Topic, bool) {
	t, ok := r.topics[id.Source()]
	return t, ok
}

func (r *registry) addTopic(t Topic) {
	r.topics[t.ID] = t
	r.names[t.Name] = t.ID
	r.partitions += int(t.Partitions)
}

// removeTopic takes out a topic with the groups of both its ids.
func (r *registry) removeTopic(t Topic) {
	delete(r.topics, t.ID)
	delete(r.names, t.Name)
	r.partitions -= int(t.Partitions)
	for id, g := range r.groups {
		if g.Topic.Source() == t.ID {
			delete(r.groups, id)
			delete(r.groupNames, groupKey{g.Topic, g.Name})
		}
	}
}

func (r *registry) addGroup(g Group) {
	r.groups[g.ID] = g
	r.groupNames[groupKey{g.Topic, g.Name}] = g.ID
}

// freeGroupID returns the id for the next group, or 0 when none is left. An id whose
// topic was deleted comes round again as late as possible.
func (r *registry) freeGroupID() codec.GroupID {
	if len(r.groups) >= int(maxGroupID) {
		return 0
	}
	id := r.lastGroup
	for {
		if id++; id == 0 {
			id = 1
		}
		if _, used := r.groups[id]; !used {
			return id
		}
	}
}

// apply carries out a record. When it no longer fits it returns why and changes nothing.
func (r *registry) apply(rec any) (why string) {
	switch rec := rec.(type) {
	case topicCreated:
		_, taken := r.names[rec.Name]
		switch {
		case taken:
			return "topic created: the name is taken"
		case rec.ID != r.nextSource:
			return "topic created: its id is not the next one"
		}
		r.nextSource = rec.ID + 2
		r.addTopic(Topic(rec))
	case topicDeleted:
		t, ok := r.topics[rec.ID]
		if !ok {
			return "topic deleted: there is none with its id"
		}
		r.removeTopic(t)
	case groupCreated:
		_, known := r.topic(rec.Topic)
		_, used := r.groups[rec.ID]
		_, taken := r.groupNames[groupKey{rec.Topic, rec.Name}]
		switch {
		case !known:
			return "group created: its topic does not exist"
		case used:
			return "group created: the id is in use"
		case taken:
			return "group created: the name is taken"
		}
		r.lastGroup = rec.ID
		r.addGroup(Group(rec))
	}
	return ""
}

// Topics returns the source topics, ascending by id.
func (c *Core) Topics() iter.Seq[Topic] { return ascending(c.reg.topics) }

// Groups returns the groups, ascending by id.
func (c *Core) Groups() iter.Seq[Group] { return ascending(c.reg.groups) }

// Topic returns the topic that id, a source's or a twin's, belongs to.
func (c *Core) Topic(id codec.TopicID) (Topic, bool) { return c.reg.topic(id) }

// TopicByName returns the topic whose source has the name.
func (c *Core) TopicByName(name string) (Topic, bool) {
	id, ok := c.reg.names[name]
	if !ok {
		return Topic{}, false
	}
	return c.reg.topics[id], true
}

// Group returns a group.
func (c *Core) Group(id codec.GroupID) (Group, bool) {
	g, ok := c.reg.groups[id]
	return g, ok
}

func ascending[K codec.TopicID | codec.GroupID, V any](m map[K]V) iter.Seq[V] {
	return func(yield func(V) bool) {
		for _, id := range slices.Sorted(maps.Keys(m)) {
			if !yield(m[id]) {
				return
			}
		}
	}
}
