// SPDX-License-Identifier: Apache-2.0

package cm

// Migrate moves the ID and its unfetched events to another channel
// (rdma_migrate_id(3)). It waits for a command of the ID that is in the kernel.
// Unlike rdma_migrate_id(3) it does not wait for events to be acknowledged: one
// that was fetched before may be dealt with after it. Who waits in Next of the
// other channel gets the events that have moved.
//
// Do not migrate a listener that may have unfetched connect requests: the kernel
// leaves their new IDs behind.
func (id *ID) Migrate(to *EventChannel) error {
	if err := id.enter(opMigrate); err != nil {
		return err
	}
	defer id.leave()
	id.moving.Lock()
	defer id.moving.Unlock()
	from := id.Channel()
	if from == to {
		return nil
	}
	// Known to both sides from now on: an event may have been fetched from the
	// old one already.
	id.mu.Lock()
	uids := []uint64{id.uid}
	for _, m := range id.groups {
		uids = append(uids, m.uid)
	}
	id.mu.Unlock()
	for _, uid := range uids {
		if err := to.addAs(uid, id); err != nil {
			return id.opError(opMigrate, err)
		}
	}
	if _, err := to.file.MigrateID(id.kid, from.file); err != nil {
		for _, uid := range uids {
			to.remove(uid)
		}
		return id.opError(opMigrate, err)
	}
	id.mu.Lock()
	id.ch, id.left = to, append(id.left, from)
	id.mu.Unlock()
	to.file.Wake() // the kernel tells nobody of events that have come with an ID
	return nil
}
