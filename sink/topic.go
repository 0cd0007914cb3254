package sink

import (
	"context"
	"errors"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// errTopicLags: a majority does not have the topic's document yet, though it exists.
var errTopicLags = errors.New("another consumer has just noted the topic")

// FirstPartitions notes how many partitions the topic has now, at its first sight, and returns how many it had then: those
// counted in it were there when the group began, others were added later. 0: the collection knows the topic under another id
// only, so it was deleted and created again since.
//
// The document lies beside the options, where writes need no lease: until the start of a first partition is known, which
// takes this number, nothing can be committed and so nothing renews one. It is only ever inserted, and may be late.
func (p *Partition) FirstPartitions(ctx context.Context, now int32) (int32, error) {
	const doing = "noting the topic"
	s, id := p.store, p.source.TopicID
	first, found, err := s.readTopic(ctx, p.topic, id)
	if err != nil {
		return 0, failure(doing, err)
	}
	if found {
		return first, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.WriteTimeout)
	defer cancel()
	reply, err := s.ports.Options.Insert(ctx, []bson.Raw{document(bson.D{
		{Key: "_id", Value: p.topic}, {Key: "topicId", Value: uuid(id)}, {Key: "partitions", Value: now},
	})})
	if err == nil && slices.ContainsFunc(reply.Errors, func(e WriteError) bool { return e.Code == codeDuplicateKey }) {
		if first, found, err = s.readTopic(ctx, p.topic, id); err == nil && !found {
			err = errTopicLags
		}
		if err != nil {
			return 0, failure(doing, err)
		}
		return first, nil
	}
	if _, err := changed(doing, reply, err); err != nil {
		return 0, err
	}
	return now, nil
}

// readTopic reads the topic's document, if there is one.
func (s *Store) readTopic(ctx context.Context, key string, id [16]byte) (partitions int32, found bool, err error) {
	query := Query{Filter: document(bson.D{{Key: "_id", Value: key}}), Limit: 1}
	err = s.ports.Options.Find(ctx, query, func(d bson.Raw) error {
		found = true
		if n, ok := d.Lookup("partitions").AsInt64OK(); ok && uuidIn(d, "topicId") == id {
			partitions = int32(n)
		}
		return nil
	})
	return partitions, found, err
}
