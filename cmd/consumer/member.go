package main

import (
	"context"
	"log/slog"

	"waterwheel/internal/kafka/group"
	"waterwheel/pipeline"
)

// member passes what the group decides on to the consumer.
type member struct {
	consumer *pipeline.Consumer
	log      *slog.Logger
	// stopping tells whether the process was asked to end.
	stopping func() bool
}

// Assigned begins a generation.
func (m *member) Assigned(g *group.Generation) {
	assignments := make([]pipeline.Assignment, 0, len(g.Partitions))
	for _, p := range g.Partitions {
		assignments = append(assignments, pipeline.Assignment{
			Partition: p.Partition, Assigned: pipeline.Assigned{TopicID: p.TopicID, Beside: p.Beside},
		})
	}
	m.log.Info("assigned", "generation", g.ID, "partitions", len(assignments))
	m.consumer.Assigned(g, assignments, g.Follows)
}

// Revoke hands all partitions over.
func (m *member) Revoke(ctx context.Context, _ *group.Generation) {
	m.consumer.Revoke(ctx, m.stopping())
}

// Lost drops all partitions.
func (m *member) Lost(*group.Generation) { m.consumer.Lost() }
