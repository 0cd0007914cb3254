package verify

// Repairs is what was done about doubled measurements, or would have been.
type Repairs struct {
	// Repaired is the number of doubled measurements that are stored once now, Copies how many copies were taken out for it,
	// of Updated buckets that keep other measurements and of Deleted ones that kept none.
	Repaired int64 `json:"mended"`
	Copies   int64 `json:"copies"`
	Updated  int64 `json:"updated"`
	Deleted  int64 `json:"deleted"`
	// Planned is what Repaired would be, of a dry run.
	Planned int64 `json:"planned"`
	// Left are copies that were not taken out, and why.
	Left Faults `json:"left"`
	// First are the first buckets that were, or would be, changed.
	First []RepairedBucket `json:"first"`
}

// RepairedBucket is the change of one bucket.
type RepairedBucket struct {
	Bucket string `json:"bucket"`
	// Removed is the number of measurements taken out, Kept how many stay: with none the bucket is deleted.
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
