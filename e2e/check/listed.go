package check

import "go.mongodb.org/mongo-driver/v2/bson"

// PositionsOf returns the partition and the positions that a stored bucket or segment lists.
func PositionsOf(raw bson.Raw) (int32, []Position, error) {
	b, err := decodeBucket(raw)
	if err != nil {
		return 0, nil, err
	}
	return b.Control.Source.Partition, b.positions, nil
}

// PositionsIn returns the positions that one element of a bucket's control.source.offsets lists.
func PositionsIn(element []byte) ([]Position, error) { return decodePositions(element) }
