package security

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// guarded is the topic for the tests of rights. The other names are its dead-letter topic and a dead-letter topic that does not
// exist.
const (
	guarded            = "guarded"
	guardedDeadLetters = "guarded.dlq"
	missingDeadLetters = "guarded.missing"
)

// right is a right of a user on a resource.
type right struct {
	user      string
	kind      kmsg.ACLResourceType
	name      string // "*" means all resources of the kind
	operation kmsg.ACLOperation
}

// rights returns the rights of each user. The users writer, fleeting and CN=writer have all rights, and least has those that
// docs/runbook.md requires. Most other users lack one of the rights of least.
func rights() []right {
	const topic, group = kmsg.ACLResourceTypeTopic, kmsg.ACLResourceTypeGroup
	const read, write, describe = kmsg.ACLOperationRead, kmsg.ACLOperationWrite, kmsg.ACLOperationDescribe
	list := []right{
		{"writer", topic, "*", kmsg.ACLOperationAll},
		{"writer", group, "*", kmsg.ACLOperationAll},
		{"fleeting", topic, "*", kmsg.ACLOperationAll},
		{"fleeting", group, "*", kmsg.ACLOperationAll},
		{"CN=writer", topic, "*", kmsg.ACLOperationAll},
		{"CN=writer", group, "*", kmsg.ACLOperationAll},
		{"unreading", topic, guarded, describe},
		{"letterless", topic, guardedDeadLetters, describe},
		{"makeless", topic, missingDeadLetters, describe},
	}
	for _, user := range []string{"least", "groupless", "letterless", "makeless", "unwriting"} {
		list = append(list, right{user, topic, guarded, read})
	}
	for _, user := range []string{"least", "blind", "unreading", "groupless", "unwriting"} {
		list = append(list, right{user, topic, guardedDeadLetters, write})
	}
	for _, user := range []string{"least", "blind", "unreading", "letterless", "makeless", "unwriting"} {
		list = append(list, right{user, group, "*", read})
	}
	return append(list, right{"unwriting", topic, guardedDeadLetters, read})
}

// grantAll makes the guarded topics and grants all rights.
func grantAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for _, topic := range []string{guarded, guardedDeadLetters} {
		if err := world.servers.CreateTopic(ctx, topic, 1); err != nil {
			return err
		}
	}
	return grant(ctx, rights()...)
}

func grant(ctx context.Context, all ...right) error {
	request := kmsg.NewPtrCreateACLsRequest()
	for _, r := range all {
		acl := kmsg.NewCreateACLsRequestCreation()
		acl.ResourceType, acl.ResourceName, acl.ResourcePatternType = r.kind, r.name, kmsg.ACLResourcePatternTypeLiteral
		acl.Principal, acl.Host = "User:"+r.user, "*"
		acl.Operation, acl.PermissionType = r.operation, kmsg.ACLPermissionTypeAllow
		request.Creations = append(request.Creations, acl)
	}
	response, err := request.RequestWith(ctx, world.admin)
	if err != nil {
		return fmt.Errorf("granting rights: %w", err)
	}
	for i, result := range response.Results {
		if err := kerr.ErrorForCode(result.ErrorCode); err != nil {
			return fmt.Errorf("granting %+v: %w", all[i], err)
		}
	}
	return nil
}
