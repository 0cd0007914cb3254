package bitmap

// Or adds the numbers of another set.
func (s *Set) Or(t *Set) {
	*s = *merged(s, t, func(a, b uint64) uint64 { return a | b })
}

// AndNot removes the numbers of another set.
func (s *Set) AndNot(t *Set) {
	*s = *Difference(s, t)
}

// Difference returns the numbers of s that are not in t.
func Difference(s, t *Set) *Set {
	return merged(s, t, func(a, b uint64) uint64 { return a &^ b })
}

// Intersection returns the numbers that are in both sets.
func Intersection(s, t *Set) *Set {
	return merged(s, t, func(a, b uint64) uint64 { return a & b })
}

// merged returns a set of the bits that an operation makes of the bits of two sets. Of two bits that are not set it makes none.
func merged(s, t *Set, operation func(a, b uint64) uint64) *Set {
	all := &Set{}
	for key, b := range s.blocks {
		all.put(key, mergedBlocks(b, t.blocks[key], operation))
	}
	for key, b := range t.blocks {
		if s.blocks[key] == nil {
			all.put(key, mergedBlocks(nil, b, operation))
		}
	}
	return all
}

// mergedBlocks returns a new block. Nil stands for an empty one.
func mergedBlocks(b, c *block, operation func(a, b uint64) uint64) *block {
	all, others := b.expanded(), c.expanded()
	for i := range all {
		all[i] = operation(all[i], others[i])
	}
	return packed(all)
}
