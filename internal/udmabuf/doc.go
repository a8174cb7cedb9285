// SPDX-License-Identifier: Apache-2.0

// Package udmabuf exports memory of this process as a dma-buf. A driver that registers the dma-buf treats it as
// memory of another device.
package udmabuf
