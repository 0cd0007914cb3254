package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"waterwheel/claim"
	"waterwheel/config"
	"waterwheel/kafka"
	"waterwheel/record"
	"waterwheel/timeseries"
	"waterwheel/verify"
)

// verifyRange is what to verify of a partition, and what to say about that.
type verifyRange struct {
	verify.Range
	notes []string
	// nothing: the notes say that nothing need be stored, wherever the range begins.
	nothing bool
}

// logStart is what a range begins with unless something else is asked for.
const logStart = "the log's start"

// parseOffset reads a flag that is an offset or a time; neither when it is empty.
func parseOffset(flag, text string, now time.Time) (offset *int64, at time.Time, err error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		if n < 0 {
			return nil, time.Time{}, usageError{fmt.Errorf("%s is %d: offsets begin at 0", flag, n)}
		}
		return &n, time.Time{}, nil
	}
	if at, err = parseWhen(flag, text, now); err != nil {
		return nil, time.Time{}, usageError{fmt.Errorf("%s is %q: an offset, or a time as 2026-01-31T12:00:00Z", flag, text)}
	}
	return nil, at, nil
}

// verifyRanges decides what to verify: per partition, below the committed offset, which is asked for first.
func verifyRanges(ctx context.Context, c config.Config, client *kafka.Scanner, o verifyOptions) ([]verifyRange, error) {
	topic, partitions, err := verifiedTopic(ctx, client, o)
	if err != nil {
		return nil, err
	}
	var committed []kafka.Committed
	err = kafka.Patiently(ctx, func() (err error) {
		if committed, err = client.Committed(ctx, c.Kafka.GroupID, partitions); err != nil {
			return err
		}
		for i := range committed {
			err = errors.Join(err, committed[i].Err)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the committed offsets of group %q: %w", c.Kafka.GroupID, err)
	}
	if !slices.ContainsFunc(committed, func(a kafka.Committed) bool { return a.Offset >= 0 }) {
		return nil, fmt.Errorf("group %q has committed no offset of %s, so nothing need be stored yet: has it run, and is KAFKA_GROUP_ID right?",
			c.Kafka.GroupID, o.topic)
	}
	ours := claim.Provenance{ClusterID: client.ClusterID(), TopicID: topic.ID}
	ours.Namespace = c.MongoDB.Database + "." + c.MongoDB.SeriesFor(o.topic)
	ranges := make([]verifyRange, 0, len(partitions))
	for i, partition := range partitions {
		r := verifyRange{Range: verify.Range{Source: timeseries.Source{Topic: o.topic, TopicID: topic.ID, Partition: partition.Number}}}
		end, err := r.committed(c.Kafka.GroupID, ours, &committed[i])
		if err != nil {
			return nil, err
		}
		if err := r.bound(ctx, c, client, o, end); err != nil {
			return nil, fmt.Errorf("asking for the offsets of %s: %w", partition, err)
		}
		ranges = append(ranges, r)
	}
	return ranges, nil
}

// verifiedTopic finds the topic and the partitions asked for.
func verifiedTopic(ctx context.Context, client *kafka.Scanner, o verifyOptions) (kafka.Topic, []record.Partition, error) {
	topic, err := client.Topic(ctx, o.topic)
	if err != nil {
		return topic, nil, err
	}
	var partitions []record.Partition
	for _, p := range topic.Partitions {
		if o.partition == allPartitions || o.partition == p.ID {
			partitions = append(partitions, record.Partition{Topic: o.topic, Number: p.ID})
		}
	}
	if len(partitions) == 0 {
		return topic, nil, usageError{fmt.Errorf("--partition is %d: topic %s has partitions 0 to %d", o.partition, o.topic, len(topic.Partitions)-1)}
	}
	return topic, partitions, nil
}

// committed is the offset below which everything must be stored; 0 when nothing need be.
func (r *verifyRange) committed(group string, ours claim.Provenance, a *kafka.Committed) (int64, error) {
	if a.Offset < 0 {
		r.notes, r.nothing = append(r.notes, fmt.Sprintf("group %q has committed nothing: nothing to verify", group)), true
		return 0, nil
	}
	have, ok := claim.ParseProvenance(a.Metadata)
	switch {
	case !ok || have.ClusterID != ours.ClusterID:
		r.notes = append(r.notes, "the offset was committed by something else (a reset?): it is taken as it is")
	case have.TopicID != ours.TopicID:
		r.notes, r.nothing = append(r.notes, "the offset was committed for a topic of this name that is deleted: nothing to verify"), true
		return 0, nil
	case have.Namespace != ours.Namespace:
		return 0, fmt.Errorf("group %q writes %s/%d to %s, the settings name %s: verify with the consumer's own settings",
			group, r.Source.Topic, r.Source.Partition, have.Namespace, ours.Namespace)
	}
	return a.Offset, nil
}

// bound resolves From and To between the log's start and the offset that is committed.
func (r *verifyRange) bound(ctx context.Context, c config.Config, client *kafka.Scanner, o verifyOptions, committed int64) error {
	of := record.Partition{Topic: r.Source.Topic, Number: r.Source.Partition}
	first, end, err := client.Bounds(ctx, of)
	if err != nil {
		return err
	}
	if committed > end {
		r.notes = append(r.notes, fmt.Sprintf("the committed offset %d is beyond the log's end %d: the log was truncated, the offset set by hand, or a transaction is open", committed, end))
		committed = end
	}
	begin := logStart
	if r.From, err = r.place(ctx, client, "--from", o.from, first); err != nil {
		return err
	}
	switch {
	case o.from != "":
		begin = "--from"
	case c.Kafka.Start.Policy == "time":
		begin = "KAFKA_START"
		if r.From, err = client.OffsetAt(ctx, of, c.Kafka.Start.Time.UnixMilli()); err != nil {
			return err
		}
	}
	if r.To, err = r.place(ctx, client, "--to", o.to, committed); err != nil {
		return err
	}
	r.clip(begin, first, committed)
	return nil
}

// clip keeps the range to what can be verified, of a log that begins at first, and says so. begin is what From comes from.
func (r *verifyRange) clip(begin string, first, committed int64) {
	end := "--to"
	if r.To > committed {
		r.notes = append(r.notes, fmt.Sprintf("only offsets below the committed one, %d, can be verified", committed))
		r.To = committed
	}
	if r.To == committed {
		end = "the committed offset"
	}
	if r.From < first && r.From < r.To {
		r.notes = append(r.notes, fmt.Sprintf("retention has removed the records below offset %d: they cannot be verified", first))
		r.From, begin = first, logStart
	}
	asked := begin != logStart || end == "--to" || r.From > r.To // else all of a partition without records
	if r.From >= r.To && asked && !r.nothing {
		r.notes = append(r.notes, fmt.Sprintf("nothing to verify: %s (offset %d) is not below %s (%d)", begin, r.From, end, r.To))
	}
}

func (r *verifyRange) place(ctx context.Context, client *kafka.Scanner, flag, text string, otherwise int64) (int64, error) {
	offset, at, err := parseOffset(flag, text, time.Now())
	switch {
	case err != nil:
		return 0, err
	case offset != nil:
		return *offset, nil
	case at.IsZero():
		return otherwise, nil
	}
	return client.OffsetAt(ctx, record.Partition{Topic: r.Source.Topic, Number: r.Source.Partition}, at.UnixMilli())
}
