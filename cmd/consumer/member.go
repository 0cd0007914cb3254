package main

import (
	"context"
	"log/slog"
	"sync/atomic"

	"waterwheel/kafka/group"
	"waterwheel/pipeline"
	"waterwheel/record"
)

// member passes what the group decides on to the consumer.
type member struct {
	consumer *pipeline.Consumer
	lease    *atomic.Pointer[group.Generation]
	log      *slog.Logger
	// stopping tells whether the process was asked to end.
	stopping func() bool
	last     int32 // the former generation
}

// Assigned begins a generation.
func (m *member) Assigned(g *group.Generation) {
	assignments := make([]pipeline.Assignment, 0, len(g.Partitions))
	for _, p := range g.Partitions {
		a := pipeline.Assignment{Partition: p.Partition, Assigned: pipeline.Assigned{
			TopicID: p.TopicID, Committed: p.Offset, Metadata: p.Metadata, Consumed: p.Consumed(),
		}}
		if p.Err != nil {
			a.Stop = &record.StopError{Reason: "kafka", Detail: "reading the committed offset: " + p.Err.Error()}
		}
		assignments = append(assignments, a)
	}
	m.log.Info("assigned", "generation", g.ID, "partitions", len(assignments))
	m.lease.Store(g)
	m.consumer.Assigned(g, assignments, g.ID == m.last+1)
	m.last = g.ID
}

// Revoke hands all partitions over.
func (m *member) Revoke(ctx context.Context, _ *group.Generation) {
	m.consumer.Revoke(ctx, m.stopping())
	m.lease.Store(nil)
}

// Lost drops all partitions.
func (m *member) Lost(*group.Generation) {
	m.consumer.Lost()
	m.lease.Store(nil)
}
