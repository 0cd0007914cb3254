package continuity

import (
	"context"
	"errors"
	"time"

	"waterwheel/e2e/check"
)

// cleanPatience is how long the servers may take to delete the data of a scenario.
const cleanPatience = time.Minute

// judge ends the load, waits until everything is stored, ends the members, and has the checker judge the stored data.
func (r *run) judge(ctx context.Context, result *Result) error {
	limited, cancel := context.WithTimeout(ctx, r.Patience)
	defer cancel()
	if err := r.load.stop(limited); err != nil {
		return err
	}
	if err := r.kafka.AwaitCommitted(limited, r.topic, r.watch.topic); err != nil {
		return errors.Join(r.group.ended(), err)
	}
	if err := r.group.await(ctx, "all is seen", func() bool { return r.watch.unseen() == 0 }); err != nil {
		return err
	}
	if err := r.group.terminateAll(limited); err != nil {
		return err
	}
	report, err := check.Run(ctx, check.Source{
		Kafka: r.kafka, MongoURI: r.Servers.MongoURI, Database: r.topic, Topic: r.topic, Group: r.topic, Fate: r.load.book.Fate,
	})
	if err != nil {
		return err
	}
	result.Valid, result.Stored, result.Verdict = report.Valid, report.Stored, report.Err()
	return nil
}

// close stops everything the scenario started, and deletes the topic. It drops the database unless the verdict is an error.
func (r *run) close(ctx context.Context, result *Result) error {
	ctx, cancel := context.WithTimeout(ctx, cleanPatience)
	defer cancel()
	if r.group != nil {
		r.group.close()
	}
	var errs []error
	if r.load != nil {
		errs = append(errs, r.load.stop(ctx))
	}
	if r.look != nil {
		r.look()
		r.looking.Wait()
	}
	r.fail(nil)
	if r.client != nil {
		r.client.Disconnect(ctx)
	}
	if r.kafka != nil {
		r.kafka.Close()
	}
	errs = append(errs, r.Servers.DeleteTopics(ctx, r.topic, r.topic+".dlq"))
	if result != nil && result.Verdict != nil {
		r.note("what is stored stays in the database %s", r.topic)
		return errors.Join(errs...)
	}
	return errors.Join(append(errs, r.Servers.DropDatabase(ctx, r.topic))...)
}
