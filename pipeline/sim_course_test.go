package pipeline_test

import (
	"reflect"

	"waterwheel/pipeline"
)

// answer is an action that an event led to, by the names of their types.
type answer struct{ event, action string }

// answered notes which actions an event led to.
func (w *world) answered(e pipeline.Event, actions []pipeline.Action) {
	for _, a := range actions {
		w.answers[answer{reflect.TypeOf(e).Name(), reflect.TypeOf(a).Name()}]++
	}
}
