package sink

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
)

// errTopicLags: a majority does not have the topic's document yet, though it exists.
var errTopicLags = errors.New("another consumer has just noted the topic")

// FirstPartitions notes how many partitions the topic has now, at its first sight, and returns how many it had then: those
// counted in it were there when the group began, others were added later. Zero means that the collection knows the topic under another id
// only, so it was deleted and created again since.
//
// The document lies beside the options, where writes need no lease: until the start of a first partition is known, which
// takes this number, nothing can be committed and so nothing renews one. It is only ever inserted, and may be late.
func (p *Partition) FirstPartitions(ctx context.Context, now int32) (int32, error) {
	const doing = "noting the topic"
	known, err := p.readTopic(ctx)
	if err != nil || known != nil {
		return p.partitionsIn(known), mongodb.Failure(doing, err)
	}
	writing, cancel := context.WithTimeout(ctx, p.store.WriteTimeout)
	defer cancel()
	noted, err := mongodb.Changed(p.store.Ports.Options.Insert(writing, []bson.Raw{mongodb.Document(bson.D{
		{Key: "_id", Value: p.topic}, {Key: "topicId", Value: uuid(p.source.TopicID)}, {Key: "partitions", Value: now},
	})}))
	switch {
	case err != nil:
		return 0, mongodb.Failure(doing, err)
	case noted:
		return now, nil
	}
	if known, err = p.readTopic(writing); err == nil && known == nil {
		err = errTopicLags
	}
	return p.partitionsIn(known), mongodb.Failure(doing, err)
}

// readTopic reads the topic's document. Nil means that there is none.
func (p *Partition) readTopic(ctx context.Context) (bson.Raw, error) {
	return mongodb.First(ctx, p.store.Ports.Options, mongodb.Query{Filter: mongodb.WithID(p.topic)})
}

// partitionsIn is what the topic's document says, if it is about this topic.
func (p *Partition) partitionsIn(d bson.Raw) int32 {
	n, ok := d.Lookup("partitions").AsInt64OK()
	if !ok || uuidIn(d, "topicId") != p.source.TopicID {
		return 0
	}
	return int32(n)
}
