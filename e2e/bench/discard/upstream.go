package discard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// primary returns the address of the server that accepts writes.
func primary(ctx context.Context, uri string) (string, error) {
	if !strings.HasPrefix(uri, "mongodb://") {
		return "", errors.New("a URI is needed that begins with mongodb://: name the hosts instead of their DNS record")
	}
	o := options.Client().ApplyURI(uri)
	if err := o.Validate(); err != nil {
		return "", fmt.Errorf("reading MongoDB's URI: %w", err)
	}
	if o.TLSConfig != nil {
		return "", errors.New("a MongoDB with TLS cannot be put behind this proxy, which reads the messages")
	}
	client, err := mongo.Connect(o)
	if err != nil {
		return "", fmt.Errorf("connecting to MongoDB: %w", err)
	}
	defer client.Disconnect(context.WithoutCancel(ctx))
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var hello struct{ Primary string }
	admin := client.Database("admin")
	err = admin.RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&hello)
	if _, ok := errors.AsType[mongo.CommandError](err); ok {
		err = admin.RunCommand(ctx, bson.D{{Key: "isMaster", Value: 1}}).Decode(&hello) // all servers know this command
	}
	if err != nil {
		return "", fmt.Errorf("asking MongoDB who takes writes: %w", err)
	}
	address := hello.Primary
	if address == "" {
		address = o.Hosts[0]
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		address = net.JoinHostPort(address, "27017")
	}
	return address, nil
}

// through returns the URI with another address. The driver must not look for the members of the replica set, because it would
// connect to their own addresses. It must not compress messages, because the proxy has to read them.
func through(uri, address string) string {
	rest := strings.TrimPrefix(uri, "mongodb://")
	rest, query, _ := strings.Cut(rest, "?")
	hosts, path, _ := strings.Cut(rest, "/")
	user := ""
	if at := strings.LastIndexByte(hosts, '@'); at >= 0 {
		user = hosts[:at+1]
	}
	kept := []string{"directConnection=true"}
	for option := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' }) {
		name, _, _ := strings.Cut(option, "=")
		switch decoded, err := url.QueryUnescape(name); {
		case err != nil:
		case strings.EqualFold(decoded, "replicaSet"), strings.EqualFold(decoded, "directConnection"), strings.EqualFold(decoded, "compressors"),
			strings.EqualFold(decoded, "connect"), strings.EqualFold(decoded, "zlibCompressionLevel"), strings.EqualFold(decoded, "zstdCompressionLevel"):
		default:
			kept = append(kept, option)
		}
	}
	return "mongodb://" + user + address + "/" + path + "?" + strings.Join(kept, "&")
}
