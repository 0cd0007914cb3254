package main

import (
	"context"
	"fmt"
	"time"

	kafka "github.com/segmentio/kafka-go"
)

// readAgain resets the group to the earliest offset, as an operator would, and lets a consumer read all records again.
func (s *stage) readAgain(ctx context.Context) error {
	if err := s.resetOffsets(ctx); err != nil {
		return err
	}
	s.out.step(red, "↺", "the group is set back to the earliest offset: everything comes again")
	if err := s.startConsumer(ctx); err != nil {
		return err
	}
	s.out.step(green, "✓", "consumer started again as process %d", s.consumer.PID())
	m, err := s.finish(ctx)
	if err != nil {
		return err
	}
	s.readTwice = int(m.Sum("waterwheel_measurements_skipped_total", "reason", "replayed"))
	s.out.step(green, "✓", "everything read again: %s measurements recognised, %s stored",
		grouped(s.readTwice), grouped(int(m.Sum("waterwheel_measurements_stored_total"))))
	return nil
}

// resetOffsets commits the start of the log for all partitions. The group has no members at this time.
func (s *stage) resetOffsets(ctx context.Context) error {
	client := &kafka.Client{Addr: kafka.TCP(s.kafka.Brokers()), Timeout: 10 * time.Second, Transport: &kafka.Transport{}}
	defer client.Transport.(*kafka.Transport).CloseIdleConnections()
	starts := make([]kafka.OffsetCommit, partitions)
	for p := range starts {
		starts[p].Partition = p
	}
	response, err := client.OffsetCommit(ctx, &kafka.OffsetCommitRequest{
		GroupID: groupName, GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{topicName: starts},
	})
	if err != nil {
		return fmt.Errorf("resetting the group's offsets: %w", err)
	}
	for _, p := range response.Topics[topicName] {
		if p.Error != nil {
			return fmt.Errorf("resetting the offset of partition %d: %w", p.Partition, p.Error)
		}
	}
	return nil
}
