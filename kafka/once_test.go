package kafka

import "context"

// Fetch reads one piece.
func (c *Client) Fetch(ctx context.Context, r FetchRequest) (*Batch, error) {
	return c.Cursor(r.Topic, r.TopicID, r.Partition).Fetch(ctx, r.Offset)
}
