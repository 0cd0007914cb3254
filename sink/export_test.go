package sink

// HoldingPartition returns a partition under a claim of ours.
func HoldingPartition(s *Store) *Partition { return &Partition{store: s, standing: holding} }
