package record

// Commit is an offset that a group commits for a partition. Everything before the offset is done.
type Commit struct {
	Place
	// Metadata says what pipeline the offset belongs to, see claim.Provenance.
	Metadata string
}
