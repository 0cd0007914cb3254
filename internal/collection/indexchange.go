package collection

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
)

// NoIndexError means that there is no index with this name.
type NoIndexError struct {
	Name string
	Have []string // names of the indexes that can be dropped and hidden
}

// Error names the existing indexes.
func (e *NoIndexError) Error() string {
	if len(e.Have) == 0 {
		return fmt.Sprintf("there is no index %q; the only indexes are those that waterwheel needs", e.Name)
	}
	return fmt.Sprintf("there is no index %q; the indexes that can be changed are %s", e.Name, strings.Join(e.Have, ", "))
}

// neededIndexError means that an index is needed and may be neither dropped nor hidden.
type neededIndexError struct{ Name, Why string }

// Error says what the index is needed for.
func (e *neededIndexError) Error() string {
	return fmt.Sprintf("the index %q is needed: %s. It can be neither dropped nor hidden", e.Name, e.Why)
}

// DroppableIndex returns the index that DropIndex would drop. Nil means that only a kept definition is left. Its errors are those
// of DropIndex.
func (t TimeSeries) DroppableIndex(ctx context.Context, name string) (*Index, error) {
	list, err := t.Indexes(ctx)
	if err != nil || slices.Contains(list.Gone, name) {
		return nil, err
	}
	index, err := list.changeable(name)
	if err != nil {
		return nil, err
	}
	return &index, nil
}

// DropIndex drops an index and its kept definition, or a kept definition whose index is gone. A *NoIndexError means that there is
// neither. Another error may mean that the index must stay.
func (t TimeSeries) DropIndex(ctx context.Context, name string) error {
	s := t.series()
	list, err := s.listIndexes(ctx)
	if err != nil {
		return err
	}
	if !slices.Contains(list.Gone, name) {
		if _, err := list.changeable(name); err != nil {
			return err
		}
		if err := s.dropByName(ctx, name); err != nil {
			return err
		}
	}
	return s.forget(ctx, definitionPrefix+name)
}

// HideIndex hides an index from the query planner, or shows it again. Hiding shows what dropping would cost. False means that
// nothing had to change. Its errors are those of DropIndex, and an error if the server cannot hide indexes.
func (t TimeSeries) HideIndex(ctx context.Context, name string, hidden bool) (bool, error) {
	s := t.series()
	list, err := s.listIndexes(ctx)
	if err != nil {
		return false, err
	}
	index, err := list.changeable(name)
	if err != nil || index.Hidden == hidden {
		return false, err
	}
	change := bson.D{{Key: "name", Value: name}, {Key: "hidden", Value: hidden}}
	err = s.db.Translate(s.driver().RunCommand(ctx, bson.D{{Key: "collMod", Value: s.buckets().Name()}, {Key: "index", Value: change}}).Err())
	if mongodb.HasCode(err, mongodb.CodeCommandNotFound, mongodb.CodeNotImplemented) {
		return false, fmt.Errorf("this MongoDB cannot hide indexes: it can only drop them")
	}
	if err != nil {
		return false, mongodb.Failure("changing the index", err)
	}
	if list, err = s.listIndexes(ctx); err != nil {
		return false, err
	}
	if index, _ = list.find(name); index.Hidden != hidden {
		return false, fmt.Errorf("this MongoDB acknowledged the change of the index %q but did not make it", name)
	}
	return true, nil
}

// changeable returns an index that may be dropped and hidden.
func (l IndexList) changeable(name string) (Index, error) {
	index, found := l.find(name)
	if !found {
		e := &NoIndexError{Name: name}
		for _, i := range l.Indexes {
			if _, needed := i.needed(); !needed && i.Kind != IndexOfView {
				e.Have = append(e.Have, i.Name)
			}
		}
		return index, e
	}
	if why, needed := index.needed(); needed {
		return index, &neededIndexError{name, why}
	}
	return index, nil
}

func (s *series) dropByName(ctx context.Context, name string) error {
	err := s.driver().RunCommand(ctx, bson.D{{Key: "dropIndexes", Value: s.buckets().Name()}, {Key: "index", Value: name}}).Err()
	return mongodb.Failure("dropping the index "+name, s.db.Translate(err))
}
