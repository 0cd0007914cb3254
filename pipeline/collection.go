package pipeline

import (
	"fmt"

	"waterwheel/internal/record"
)

// changeCollection takes in changed options of the collection.
func (w *Worker) changeCollection(e CollectionChanged) {
	w.newOptions = &e.Options
	w.followCollection()
}

// followCollection applies the newest options of the collection, once there is a catalog. Open buckets keep their minimum
// times, and the new span holds for them at once. Options that do not fit existing buckets, such as a smaller span or another
// time field, stop the partition until they are restored.
func (w *Worker) followCollection() {
	if w.newOptions == nil || w.phase != running {
		return
	}
	have := w.o.Bucketing.Collection
	changed, err := have.Change(*w.newOptions)
	if err != nil {
		w.stop(&record.StopError{Reason: "collection_changed", Detail: fmt.Sprintf(
			"the options of the collection %s were changed to values that its buckets do not allow: %v; restore the former values in the "+
				"options document, and the partition continues", w.o.Namespace, err)})
		return
	}
	w.newOptions = nil
	if w.halt != nil && w.halt.Reason == "collection_changed" {
		w.halt = nil
	}
	if changed == have {
		return
	}
	w.o.Bucketing.Collection = changed
	w.catalog.SetCollection(changed)
	w.log.Info("the options of the collection changed", "granularity", changed.Granularity, "span_seconds", changed.MaxSpanSeconds)
}
