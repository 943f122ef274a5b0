// Embeds the device image. image.cmake sets LSCHED_DEVICE_IMAGE to the name of the file.
        .section .rodata
        .balign 64
        .globl  lsched_device_image
        .hidden lsched_device_image
        .type   lsched_device_image, %object
lsched_device_image:
        .incbin LSCHED_DEVICE_IMAGE
        .size   lsched_device_image, . - lsched_device_image
        .globl  lsched_device_image_end
        .hidden lsched_device_image_end
        .type   lsched_device_image_end, %object
lsched_device_image_end:
        .byte   0
        .section .note.GNU-stack, "", %progbits
