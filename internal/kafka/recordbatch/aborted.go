package recordbatch

import (
	"cmp"
	"slices"
)

// Aborted is an aborted transaction. The producer's transactional batches from offset First up to its next abort marker do not
// count.
type Aborted struct {
	Producer, First int64
}

// abortedTransactions follows the record batches of one answer in their order.
type abortedTransactions struct {
	coming []Aborted // by first offset
	active []int64   // producers inside an aborted transaction; hardly ever more than a few
}

// newAbortedTransactions takes the list of a fetch answer. Brokers order it by abort marker, not by first offset.
func newAbortedTransactions(list []Aborted) abortedTransactions {
	slices.SortFunc(list, func(a, b Aborted) int { return cmp.Compare(a.First, b.First) })
	return abortedTransactions{coming: list}
}

// covers advances to a batch and reports whether the batch belongs to an aborted transaction.
func (a *abortedTransactions) covers(h batchHeader, last int64) bool {
	for len(a.coming) > 0 && a.coming[0].First <= last {
		if producer := a.coming[0].Producer; !slices.Contains(a.active, producer) {
			a.active = append(a.active, producer)
		}
		a.coming = a.coming[1:]
	}
	return h.attributes&attributeTransactional != 0 && slices.Contains(a.active, h.producer)
}

// end handles the abort marker of a producer.
func (a *abortedTransactions) end(producer int64) {
	if i := slices.Index(a.active, producer); i >= 0 {
		a.active = slices.Delete(a.active, i, i+1)
	}
}
