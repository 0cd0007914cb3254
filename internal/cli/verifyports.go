package cli

import (
	"context"
	"log/slog"

	"waterwheel/config"
	"waterwheel/internal/claim"
	"waterwheel/internal/connect"
	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/verify"
	"waterwheel/sink"
)

// offsetsOf is verify.Offsets in Kafka.
type offsetsOf struct{ *kafka.Scanner }

// Committed implements verify.Offsets.
func (o offsetsOf) Committed(ctx context.Context, group string, partitions []record.Partition) (committed []claim.Committed, err error) {
	answers, err := o.Scanner.Committed(ctx, group, partitions)
	for _, a := range answers {
		committed = append(committed, claim.Committed{Offset: a.Offset, Metadata: a.Metadata, Consumed: a.Consumed()})
	}
	return committed, err
}

// claimsOf is verify.Claims in MongoDB.
type claimsOf struct {
	database *sink.Database
	series   string
}

// Claims implements verify.Claims.
func (c claimsOf) Claims(ctx context.Context) (claims []claim.Document, err error) {
	documents, err := c.database.Partitions(ctx, c.series)
	for _, d := range documents {
		claims = append(claims, d.Document)
	}
	return claims, err
}

// lostRecords are what consumers noted of records that retention deleted before they were read; a *sink.Database.
type lostRecords interface {
	Lost(ctx context.Context, series, clusterID string, source timeseries.Source) ([]claim.Lost, error)
}

// readLost adds to ranges what was lost of their partitions: from the given limit on, where there is one, else all.
func readLost(ctx context.Context, in lostRecords, series, clusterID string, ranges []verify.Range, from verify.Limit) error {
	for i := range ranges {
		r := &ranges[i]
		least := int64(0)
		switch {
		case from.Offset != nil:
			least = *from.Offset
		case !from.Time.IsZero():
			least = r.From
		}
		noted, err := in.Lost(ctx, series, clusterID, r.Source)
		if err != nil {
			return err
		}
		for _, lost := range noted {
			if lost.From = max(lost.From, least); lost.From < lost.To {
				r.Lost = append(r.Lost, lost)
			}
		}
	}
	return nil
}

// openVerified connects to Kafka for a topic and its dead letters.
func openVerified(ctx context.Context, c config.Config, log *slog.Logger, topic string) (*kafka.Scanner, error) {
	o := connect.KafkaOptions(c, log)
	o.Topics = []string{topic}
	if c.DLQ.Topic != "" {
		o.Topics = append(o.Topics, c.DLQ.TopicFor(topic))
	}
	return kafka.OpenScanner(ctx, o)
}
