package bucketer

import "go.mongodb.org/mongo-driver/v2/bson"

// Metas returns the identities of up to most of the series in memory, any of them, in any order. The bytes are copies;
// Type 0: a series without meta.
func (c *Catalog) Metas(most int) []bson.RawValue {
	metas := make([]bson.RawValue, 0, min(most, len(c.series)))
	for _, s := range c.series {
		if len(metas) == cap(metas) {
			break
		}
		metas = append(metas, s.meta())
	}
	return metas
}
