package collection

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/rollup"
	"waterwheel/internal/timeseries"
)

// rollupConflict says that a collection holds totals where measurements are to be stored, or the other way round. It holds the
// totals of the time series held and should hold those of wanted. Empty means measurements.
func rollupConflict(namespace, held, wanted string) error {
	switch {
	case wanted == "":
		return fmt.Errorf("%s is a rollup of %s: it holds totals and cannot hold measurements; choose another MONGODB_COLLECTION", namespace, held)
	case held == "":
		return fmt.Errorf("%s holds measurements, but a rollup of %s needs this name: rename one of the two time series, or remove the level from ROLLUP_LEVELS",
			namespace, wanted)
	}
	return fmt.Errorf("%s is a rollup of %s, but a rollup of %s needs this name: rename one of the two time series", namespace, held, wanted)
}

// ReadRollups reads the definition of a time series' rollups.
func ReadRollups(ctx context.Context, c mongodb.Collection) (rollup.Definition, error) {
	const operation = "reading the list of rollups"
	raw, err := mongodb.First(ctx, c, mongodb.Query{Filter: mongodb.WithID(rollup.DefinitionID)})
	if err != nil {
		return rollup.Definition{}, mongodb.Failure(operation, err)
	}
	d, err := rollup.ReadDefinition(raw)
	if err != nil {
		return d, fmt.Errorf("%s: %w", operation, err)
	}
	return d, nil
}

// LevelNames returns the names of the time series that hold the rollups of this one.
func (t TimeSeries) LevelNames(ctx context.Context) (names []string, err error) {
	have, err := ReadRollups(ctx, t.Ports().Options)
	for _, l := range have.Levels {
		names = append(names, t.levelName(l))
	}
	return names, err
}

// levelName returns the name of the time series of a level.
func (t TimeSeries) levelName(l rollup.DefinedLevel) string {
	level, _ := l.Level() // ReadDefinition refuses unknown levels
	return level.SeriesName(t.name)
}

// SetupRollups makes the missing collections of the rollups of a time series that is set up. It notes the levels in the options
// of the time series.
func (t TimeSeries) SetupRollups(ctx context.Context, levels rollup.Levels, rules rollup.Rules, as Settings) error {
	base, err := ReadDefinition(ctx, t.Ports().Options)
	if err != nil {
		return err
	}
	for _, level := range levels {
		_, err := Of(t.db, level.SeriesName(t.name)).prepare(ctx, level.Options(base.Options), as, func(s *series) error {
			s.rollupOf = t.name
			return s.createMissing(ctx)
		})
		if err != nil {
			return err
		}
	}
	if err := t.noteLevels(ctx, base.Options, levels, rules); err != nil {
		return fmt.Errorf("setting up the rollups of %s: %w", t.name, err)
	}
	if err := t.shardRollups(ctx, levels, base.Options); err != nil { // rows can be stored all the same
		t.log().Warn("the rollups are not sharded like their time series", "err", err, "way_out", "waterwheel collection shard --yes")
	}
	return nil
}

// WarnOfOtherLevels logs which levels the time series has besides levels, those of ROLLUP_LEVELS. Consumers maintain them too.
func (t TimeSeries) WarnOfOtherLevels(ctx context.Context, levels rollup.Levels) error {
	have, err := ReadRollups(ctx, t.Ports().Options)
	for _, l := range have.Levels {
		if !levels.Has(l.Name) {
			t.log().Warn("ROLLUP_LEVELS lacks a level that the collection has: consumers keep this level up to date all the same",
				"level", l.Name, "way_out", "add it to ROLLUP_LEVELS, or delete it with `waterwheel rollup drop "+l.Name+"`")
		}
	}
	return err
}

// shardRollups shards levels by the key of the time series, whose options are base. It does nothing if the time series is not
// sharded. A user that may not read whether it is sharded cannot shard anything.
func (t TimeSeries) shardRollups(ctx context.Context, levels rollup.Levels, base timeseries.Options) error {
	as, err := t.sharding(ctx)
	if mongodb.LacksRight(err) {
		t.log().Info("this user may not read whether the collection is sharded: if it is, shard its rollups too",
			"way_out", "waterwheel collection shard --yes, with --hashed if the key is hashed, as a user with the role clusterManager")
		return nil
	}
	if err == nil && as.Key == nil {
		return nil
	}
	if err != nil {
		return err
	}
	byHash := equalKeys(as.Key, ShardKey(base, true))
	if !byHash && !equalKeys(as.Key, ShardKey(base, false)) {
		return nil // another tool made this key
	}
	for _, level := range levels {
		name := level.SeriesName(t.name)
		if err := Of(t.db, name).Shard(ctx, byHash); err != nil {
			return fmt.Errorf("sharding %s: %w", name, err)
		}
	}
	return nil
}

// noteTries bounds how often the note of the levels is written because others write it at the same time.
const noteTries = 5

// noteLevels adds levels to those that a time series has. All of them then have these rules, because days are folded from hours. An
// existing level keeps the time from which it is complete, unless it gets fields that its earlier rows lack.
// base are the options of the time series.
func (t TimeSeries) noteLevels(ctx context.Context, base timeseries.Options, levels rollup.Levels, rules rollup.Rules) error {
	return t.changeLevels(ctx, func(list []rollup.DefinedLevel) (_ []rollup.DefinedLevel, err error) {
		names := make([]string, 0, len(list)+len(levels))
		for _, level := range list {
			names = append(names, level.Name)
		}
		for _, level := range levels {
			names = append(names, level.Name)
		}
		for _, name := range names {
			if list, err = t.withLevel(ctx, base, list, name, rules); err != nil {
				return nil, err
			}
		}
		return list, nil
	})
}

// changeLevels replaces the list of levels by a function of it. The function may change its argument.
func (t TimeSeries) changeLevels(ctx context.Context, change func([]rollup.DefinedLevel) ([]rollup.DefinedLevel, error)) error {
	for range noteTries {
		have, err := ReadRollups(ctx, t.Ports().Options)
		if err != nil {
			return err
		}
		next, err := change(slices.Clone(have.Levels))
		if err != nil {
			return err
		}
		if done, err := t.replaceLevels(ctx, have, next); err != nil || done {
			return err
		}
	}
	return ErrChangedMeanwhile
}

// withLevel adds a level to a list, or changes the rules of a level in the list.
func (t TimeSeries) withLevel(
	ctx context.Context, base timeseries.Options, list []rollup.DefinedLevel, name string, rules rollup.Rules,
) ([]rollup.DefinedLevel, error) {
	wanted := rollup.DefinedLevel{Name: name, Count: rules.CountField(), Fields: rules.Fields}
	at := slices.IndexFunc(list, func(l rollup.DefinedLevel) bool { return l.Name == name })
	same := false
	if at >= 0 {
		have := list[at]
		if have.Count != wanted.Count {
			return nil, fmt.Errorf("the rows of %s count their measurements in %q, but ROLLUP_COUNT_FIELD is %q: set ROLLUP_COUNT_FIELD to %q, or drop the level with `waterwheel rollup drop %s`",
				t.levelName(have), have.Count, wanted.Count, have.Count, name)
		}
		wanted.Since, same = have.Since, rollup.Fields(have.Fields).Covers(rules.Fields)
	}
	if !same {
		since, err := t.wholeSince(ctx, base)
		if err != nil {
			return nil, err
		}
		wanted.Since = since
	}
	if at >= 0 {
		list[at] = wanted
		return list, nil
	}
	list = append(list, wanted)
	slices.SortFunc(list, func(a, b rollup.DefinedLevel) int {
		one, _ := a.Level()
		other, _ := b.Level()
		return cmp.Compare(one.Step, other.Step)
	})
	return list, nil
}

// rollupMargin is how long consumers may still run that do not know a new level, while they are restarted one after the other.
const rollupMargin = time.Hour

// wholeSince returns from when on a level that begins now is complete. Nil means from the beginning, because nothing is stored
// yet. Passes compute the hours of measurements that are stored from now on, and stored measurements may have later times than now.
// So the level is complete after the latest stored time. The margin comes on top of it. Consumers that do not know the level may
// store still later times meanwhile, if times run ahead of the clock.
func (t TimeSeries) wholeSince(ctx context.Context, base timeseries.Options) (*time.Time, error) {
	if stored, err := has(ctx, t.Ports().Buckets, bson.D{}); err != nil || !stored {
		return nil, err
	}
	now, err := t.db.Clock(ctx)
	if err != nil {
		return nil, err
	}
	latest, err := t.latestAfter(ctx, base, now)
	since := latest.Add(rollupMargin).UTC()
	if hour := since.Truncate(time.Hour); hour.Before(since) {
		since = hour.Add(time.Hour)
	}
	return &since, err
}

// latestAfter returns the latest time of a stored measurement, or now if none has a later time. The range of the _id bounds the
// query, because the _id of a bucket begins with its first time. It includes all first times before 1970 and after 2038, which have
// the largest _ids.
func (t TimeSeries) latestAfter(ctx context.Context, base timeseries.Options, now time.Time) (time.Time, error) {
	latest := timeseries.MaxPath(base.TimeField)
	first := timeseries.BucketIDOf(min(now.UnixMilli()-base.Span(), 1000*math.MaxInt32), nil)
	found, err := mongodb.First(ctx, t.Ports().Buckets, mongodb.Query{
		Filter: mongodb.Document(bson.D{
			{Key: timeseries.FieldID, Value: bson.D{{Key: "$gte", Value: first}}}, {Key: latest, Value: bson.D{{Key: "$gte", Value: bson.NewDateTimeFromTime(now)}}},
		}),
		Projection: mongodb.Document(bson.D{{Key: latest, Value: 1}}), Sort: mongodb.Document(bson.D{{Key: latest, Value: -1}}),
	})
	if err != nil || found == nil {
		return now, mongodb.Failure("looking for the latest stored measurement", err)
	}
	ms, _ := found.Lookup(timeseries.FieldControl, timeseries.FieldMax, base.TimeField).DateTimeOK()
	return time.UnixMilli(ms + 1), nil // this measurement is before the level is complete
}

// replaceLevels writes the list of levels if it is still as it was read. False means that it is not.
func (t TimeSeries) replaceLevels(ctx context.Context, have rollup.Definition, next []rollup.DefinedLevel) (done bool, err error) {
	if have.ID != "" && bytes.Equal(encoded(have.Levels), encoded(next)) {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, t.db.WriteTimeout())
	defer cancel()
	c := t.Ports().Options
	if have.ID == "" {
		done, err = mongodb.Changed(c.Insert(ctx, []bson.Raw{mongodb.Document(rollup.Definition{ID: rollup.DefinitionID, Levels: next})}))
	} else {
		done, err = mongodb.Changed(c.Update(ctx, []mongodb.Update{{
			Filter: mongodb.Document(bson.D{{Key: "_id", Value: rollup.DefinitionID}, {Key: fieldLevels, Value: have.Levels}}),
			Update: mongodb.Set(bson.D{{Key: fieldLevels, Value: next}}),
		}}))
	}
	return done, mongodb.Failure("writing the list of rollups", err)
}

// fieldLevels is the field of the levels in the document of rollup.DefinitionID.
const fieldLevels = "levels"

func encoded(levels []rollup.DefinedLevel) bson.Raw {
	return mongodb.Document(bson.D{{Key: fieldLevels, Value: levels}})
}

// DropRollup removes a level from the time series. It first removes the level from the definition. A keeper reads the definition
// before each write of rows. So DropRollup waits until a write that was sent before has ended, and then drops the collections. False
// means that the time series does not have the level.
func (t TimeSeries) DropRollup(ctx context.Context, level string) (bool, error) {
	if has, err := t.HasLevel(ctx, level); err != nil || !has {
		return false, err
	}
	err := t.changeLevels(ctx, func(list []rollup.DefinedLevel) ([]rollup.DefinedLevel, error) {
		return slices.DeleteFunc(list, func(l rollup.DefinedLevel) bool { return l.Name == level }), nil
	})
	if err != nil {
		return true, err
	}
	select {
	case <-time.After(t.db.WriteTimeout()):
	case <-ctx.Done():
		return true, ctx.Err()
	}
	for _, collection := range timeseries.Collections(t.levelName(rollup.DefinedLevel{Name: level})) { // the options are the last
		if err := t.db.Translate(t.driver().Collection(collection).Drop(ctx)); err != nil {
			return true, mongodb.Failure("dropping "+collection, err)
		}
	}
	return true, nil
}

// HasLevel reports whether the time series has a level, or collections that an interrupted DropRollup has left.
func (t TimeSeries) HasLevel(ctx context.Context, level string) (bool, error) {
	have, err := ReadRollups(ctx, t.Ports().Options)
	if err != nil {
		return false, err
	}
	if _, defined := have.Level(level); defined {
		return true, nil
	}
	of, known := rollup.LevelOf(level)
	if !known {
		return false, nil
	}
	left, err := ReadDefinition(ctx, Of(t.db, of.SeriesName(t.name)).Ports().Options)
	if errors.Is(err, ErrNotSetUp) {
		return false, nil
	}
	return err == nil && left.RollupOf == t.name, err
}

// WholeSince notes from when on the levels of the time series are complete, if that is earlier than noted before. The zero time
// means from the beginning.
func (t TimeSeries) WholeSince(ctx context.Context, since time.Time) error {
	return t.changeLevels(ctx, func(list []rollup.DefinedLevel) ([]rollup.DefinedLevel, error) {
		for i := range list {
			switch l := &list[i]; {
			case l.Since == nil:
			case since.IsZero():
				l.Since = nil
			case since.Before(*l.Since):
				l.Since = &since
			}
		}
		return list, nil
	})
}

// Nested returns the collection for nested documents of totals. It refuses the names of collections of time series.
func Nested(ctx context.Context, db *mongodb.Database, name string) (mongodb.Collection, error) {
	if err := timeseries.CheckSeriesName(db.Name(), name, timeseries.MaxNamespace); err != nil {
		return nil, fmt.Errorf("the collection %q %w", name, err)
	}
	all, err := Names(ctx, db)
	if err != nil {
		return nil, err
	}
	for _, series := range all {
		if series == name || slices.Contains(timeseries.Collections(series), name) {
			return nil, fmt.Errorf("the collection %s.%s belongs to the time series %s: choose another collection for the nested documents, with ROLLUP_NESTED or --into", db.Name(), name, series)
		}
	}
	return db.Collection(name), nil
}
