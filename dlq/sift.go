package dlq

import (
	"context"
	"fmt"
)

// Stray is a letter that is not of the record that it names: it stays.
type Stray struct {
	// Place and Offset are where it stands.
	Place
	Offset int64
	// Wrong says what speaks against it.
	Wrong string
}

// sift takes out of the parcel the letters that are of no record, and those of a record that has another letter already. Only
// here is a letter's position taken: one that stays must not hide another.
func (r *Redrive) sift(ctx context.Context, b *parcel) error {
	fresh := b.letters[b.sifted:]
	claims := make([]claim, len(fresh))
	for i := range fresh {
		claims[i].letter = &fresh[i].letter
	}
	if err := r.originals.check(ctx, claims); err != nil {
		return err
	}
	kept := make([]item, 0, len(b.letters))
	kept = append(kept, b.letters[:b.sifted]...)
	for i := range fresh {
		one := fresh[i]
		switch {
		case claims[i].wrong != "":
			r.stray(Stray{Place: b.place, Offset: one.offset, Wrong: claims[i].wrong})
		case !r.taken.add(&one.letter):
			r.report.Doubles++
		default:
			one.gone = claims[i].gone
			kept = append(kept, one)
		}
	}
	b.letters, b.sifted = kept, len(kept)
	return nil
}

// isForeign tells whether a letter stands in another dead-letter topic than that of the topic it names, and counts it.
func (r *Redrive) isForeign(f *Found) bool {
	if r.o.TopicFor == nil || r.o.TopicFor(f.Letter.Topic) == f.Topic {
		return false
	}
	r.stray(Stray{
		Place: f.Place, Offset: f.Offset, Wrong: fmt.Sprintf("letters of %q stand in %q", f.Letter.Topic, r.o.TopicFor(f.Letter.Topic)),
	})
	return true
}

func (r *Redrive) stray(s Stray) {
	r.report.Strays++
	if r.o.Stray != nil {
		r.o.Stray(s)
	}
}
