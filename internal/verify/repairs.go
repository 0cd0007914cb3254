package verify

// Repairs is what a repair did about doubled measurements, or would have done.
type Repairs struct {
	// Repaired is the number of doubled measurements that are now stored once. Copies is how many copies were removed for it.
	// Updated counts the buckets that keep other measurements, and Deleted those that kept none.
	Repaired int64 `json:"mended"`
	Copies   int64 `json:"copies"`
	Updated  int64 `json:"updated"`
	Deleted  int64 `json:"deleted"`
	// Planned is what a repair would have counted in Repaired, after a dry run.
	Planned int64 `json:"planned"`
	// Left are copies that were not removed, with the reasons.
	Left Faults `json:"left"`
	// First are the first buckets that were, or would be, changed.
	First []RepairedBucket `json:"first"`
}

// RepairedBucket is the change of one bucket.
type RepairedBucket struct {
	Bucket string `json:"bucket"`
	// Removed is the number of measurements removed, and Kept the number of those that stay. If Kept is zero, the bucket is
	// deleted.
	Removed int `json:"removed"`
	Kept    int `json:"kept"`
}

func (r *Repairs) merge(s *Repairs, examples int) {
	r.Repaired += s.Repaired
	r.Copies += s.Copies
	r.Updated += s.Updated
	r.Deleted += s.Deleted
	r.Planned += s.Planned
	r.Left.merge(&s.Left, examples)
	r.First = append(r.First, s.First[:min(len(s.First), max(0, examples-len(r.First)))]...)
}
