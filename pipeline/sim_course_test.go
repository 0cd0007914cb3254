package pipeline_test

import (
	"reflect"

	"waterwheel/pipeline"
)

// answer is a pair of an event and an action it caused, by the names of their types.
type answer struct{ event, action string }

// answered counts the actions that an event caused.
func (w *world) answered(e pipeline.Event, actions []pipeline.Action) {
	for _, a := range actions {
		w.answers[answer{reflect.TypeOf(e).Name(), reflect.TypeOf(a).Name()}]++
	}
}
