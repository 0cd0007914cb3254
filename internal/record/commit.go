package record

// Commit is an offset that a group commits for a partition: everything before it is done.
type Commit struct {
	Place
	// Metadata says where the offset belongs, see claim.Provenance.
	Metadata string
}
