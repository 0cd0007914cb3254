package harness

import "context"

// GivenServers returns a Kafka and a MongoDB at the given addresses, and ignores the environment. The caller closes them.
func GivenServers(ctx context.Context, brokers, mongoURI string) (*Servers, error) {
	s := &Servers{Brokers: brokers, MongoURI: mongoURI, GivenKafka: true, GivenMongo: true}
	if err := s.probe(ctx); err != nil {
		return nil, err
	}
	return s, nil
}
