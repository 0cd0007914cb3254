package main

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waterwheel/config"
	"waterwheel/internal/collection"
	"waterwheel/internal/connect"
	"waterwheel/internal/kafka"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/status"
	"waterwheel/internal/timeseries"
	"waterwheel/sink"
)

// topicsInterval is how often run looks for new topics that match KAFKA_TOPICS.
const topicsInterval = 15 * time.Second

// absentLooks is the number of looks in a row that do not find a topic before Kafka is asked whether the topic exists. A broker that
// has just started may not know all topics yet.
const absentLooks = 2

// topicWatch follows the topics that match the patterns of KAFKA_TOPICS.
type topicWatch struct {
	log *slog.Logger
	// topics are the topics that are already read.
	topics []string
	// absent counts the last looks in a row that did not find a topic of topics.
	absent map[string]int
	// look finds the topics of the cluster that match. It also returns the matching topics that cannot be read, with the reason. Of
	// topics that would share a collection, topics that are read already come first, and those that were refused come last.
	look func(ctx context.Context, order connect.Precedence) (config.Config, map[string]error, error)
	// add sets a topic up, with its collections.
	add func(ctx context.Context, topic string) error
	// read makes these the topics that are read. added are the new ones among them.
	read func(topics, added []string)
	// missing returns the topics among these that do not exist. Not all topics that a look does not find are deleted: this user may no
	// longer see them. Their partitions say so.
	missing func(ctx context.Context, topics ...string) ([]string, error)
	// refused are the last logged reasons for topics that are not read.
	refused map[string]string
	// state is the last look, for the status page.
	state atomic.Pointer[status.Topics]
	// deleted is 1 for each topic that is no longer read.
	deleted *prometheus.GaugeVec
}

// newTopicsDeleted registers waterwheel_topic_deleted.
func newTopicsDeleted(reg prometheus.Registerer) *prometheus.GaugeVec {
	deleted := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "waterwheel_topic_deleted",
		Help: "1 if a topic that matched a pattern of KAFKA_TOPICS was deleted and is no longer read, 0 once it is read again.",
	}, []string{"topic"})
	reg.MustRegister(deleted)
	return deleted
}

// run looks for new and for deleted topics until the context ends. It retries a topic that cannot be set up each time. A topic that
// comes back is a new topic. Topics that KAFKA_TOPICS names are always found.
func (t *topicWatch) run(ctx context.Context, every time.Duration) {
	if len(t.topics) == 0 {
		t.log.Warn("no topic matches KAFKA_TOPICS yet: waiting for one", "look_every", every)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for t.once(ctx); ; {
		select {
		case <-tick.C:
			t.once(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// once looks once for new and for deleted topics.
func (t *topicWatch) once(ctx context.Context) {
	found, refused, err := t.look(ctx, connect.Precedence{First: t.topics, Last: slices.Collect(maps.Keys(t.refused))})
	if err != nil {
		t.log.Debug("cannot look for topics that match KAFKA_TOPICS", "err", err)
		failed := *t.state.Load()
		if failed.Failed == nil {
			failed.Since = kafka.Now()
		}
		failed.Failed = err
		t.state.Store(&failed)
		return
	}
	var added []string
	for _, topic := range found.Kafka.Topics {
		if slices.Contains(t.topics, topic) {
			continue
		}
		if err := t.add(ctx, topic); err != nil && ctx.Err() == nil {
			refused[topic] = err
			continue
		}
		added = append(added, topic)
	}
	t.tell(refused)
	if ctx.Err() != nil {
		return
	}
	gone := t.gone(ctx, found.Kafka.Topics, refused)
	t.topics = append(slices.DeleteFunc(slices.Clone(t.topics), func(topic string) bool { return slices.Contains(gone, topic) }), added...)
	for _, topic := range added {
		if t.deleted.DeleteLabelValues(topic) { // it was deleted before
			t.deleted.WithLabelValues(topic).Set(0)
		}
	}
	for _, topic := range gone {
		t.deleted.WithLabelValues(topic).Set(1)
	}
	if len(added) > 0 {
		t.log.Info("topics added: they match KAFKA_TOPICS", "topics", strings.Join(added, ","))
	}
	if len(gone) > 0 {
		t.log.Warn("topics are no longer read: they were deleted. Records that were not stored before are lost", "topics", strings.Join(gone, ","))
	}
	t.note(refused)
	if len(added)+len(gone) > 0 {
		t.read(t.topics, added)
	}
}

// note notes a look that succeeded, for the status page.
func (t *topicWatch) note(refused map[string]error) {
	now := status.Topics{None: len(t.topics) == 0}
	for _, topic := range slices.Sorted(maps.Keys(refused)) {
		now.Unread = append(now.Unread, topic+" ("+refused[topic].Error()+")")
	}
	t.state.Store(&now)
}

// gone counts the looks without a topic, and returns the deleted topics.
func (t *topicWatch) gone(ctx context.Context, found []string, refused map[string]error) (gone []string) {
	absent := map[string]int{}
	for _, topic := range t.topics {
		if slices.Contains(found, topic) || refused[topic] != nil {
			continue
		}
		if absent[topic] = t.absent[topic] + 1; absent[topic] < absentLooks {
			continue
		}
		missing, err := t.missing(ctx, topic)
		if err != nil {
			t.log.Debug("cannot tell whether a topic was deleted", "topic", topic, "err", err)
		}
		if gone = append(gone, missing...); len(missing) > 0 {
			delete(absent, topic)
		}
	}
	t.absent = absent
	return gone
}

// tell logs once for each refused topic why it is not read.
func (t *topicWatch) tell(refused map[string]error) {
	said := make(map[string]string, len(refused))
	for topic, why := range refused {
		if said[topic] = why.Error(); t.refused[topic] != said[topic] {
			t.log.Warn("topic matches KAFKA_TOPICS but is not read", "topic", topic, "err", why)
		}
	}
	t.refused = said
}

// collectionInterval is how often the options of a collection are read again.
const collectionInterval = time.Minute

// collectionPatience is the total time that the answers of one check may take.
const collectionPatience = time.Minute

// collectionWatch follows changes of the options of a collection.
type collectionWatch struct {
	store *sink.Store
	// covers reports whether the server's expiry and view are right for buckets with these options.
	covers func(ctx context.Context, o timeseries.Options) (bool, error)
	apply  func(timeseries.Options)
	// compact starts the compaction of all present segments. A command requests it and waits for it.
	compact func()
	// mend replaces a view that does not support segments although there are some. It reports whether it did.
	mend func(ctx context.Context) (bool, error)
	// missing is called when the collection is no longer set up.
	missing func(ctx context.Context)
	log     *slog.Logger
}

// run looks for changed options until the context ends, and applies them. It needs one small read per interval, whatever the
// number of partitions. It applies changed options only if expiry and view cover them. A command makes sure of that before it
// writes the options. So an edit by hand does not hide measurements that are then written. A failed read is only logged, because
// an outage of MongoDB is reported elsewhere, and the old options are still good. If the collection has lost its content, the
// process ends.
func (c collectionWatch) run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	last, warned := c.store.Options, timeseries.Options{}
	asked, _ := c.store.CompactionAsked(ctx) // so that an old request is not followed again
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		look, cancel := context.WithTimeout(ctx, collectionPatience)
		c.mendView(look)
		if at, err := c.store.CompactionAsked(look); err == nil && !at.Equal(asked) { // compared by equality, because MongoDB's clock may step back
			asked = at
			c.compact()
		}
		last, warned = c.follow(look, last, warned)
		cancel()
	}
}

// follow reads the options. It returns the options that are now applied, and those that are now ignored. last and warned are the
// old ones.
func (c collectionWatch) follow(ctx context.Context, last, warned timeseries.Options) (timeseries.Options, timeseries.Options) {
	definition, err := collection.ReadDefinition(ctx, c.store.Ports.Options)
	now := definition.Options
	if err == nil && now == last {
		return last, warned
	}
	covered := false
	if err == nil {
		covered, err = c.covers(ctx, now)
	}
	switch {
	case errors.Is(err, collection.ErrNotSetUp):
		c.missing(ctx)
	case err != nil:
		c.log.Debug("cannot read the collection's options again", "collection", c.store.Namespace, "err", err)
	case covered:
		c.store.SetCollection(now)
		c.apply(now)
		return now, warned
	case now != warned:
		c.log.Warn("changed options of the collection ignored, because the expiry or the view of the collection does not match them: change options only with "+
			"`waterwheel collection set-granularity`, `set-span` or `set-expiry`", "collection", c.store.Namespace)
		return last, now
	}
	return last, warned
}

// mendView checks the view. A consumer of a former version may have replaced it by a view without support for segments.
func (c collectionWatch) mendView(ctx context.Context) {
	switch mended, err := c.mend(ctx); {
	case mongodb.LacksRight(err):
		c.log.Warn("the view does not support segments and shows measurements twice, and this user may not change the view", "collection", c.store.Namespace,
			"err", err, "way_out", "grant the role dbAdmin, or start once with MONGODB_VIEW=none")
	case err != nil:
		c.log.Debug("cannot check whether the view shows segments", "collection", c.store.Namespace, "err", err)
	case mended:
		c.log.Warn("view replaced: it did not support segments and showed measurements twice; if other consumers are of an older version, update them",
			"collection", c.store.Namespace)
	}
}
