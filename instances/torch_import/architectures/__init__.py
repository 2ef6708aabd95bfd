"""The networks that the torch importer can build: names, descriptions and options; no torch needed.

Each family is one file with a function ``build(**options)`` that returns an `Example`; it is imported when
one of its networks is built, because it needs torch. The architectures are written here from their papers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ...options import Parameter, Value

if TYPE_CHECKING:
    from .example import Example

_MOST = 10**5
"""Largest number that a parameter takes: larger networks do not fit into memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """A network of a family.

    Parameters
    ----------
    family
        The module of this package that builds it.
    description
        As ``lowtide list instances`` shows it.
    parameters
        The options that users set, beside those that all networks have.
    fixed
        What else the family's ``build`` gets.
    """

    family: str
    description: str
    parameters: Mapping[str, Parameter]
    fixed: Mapping[str, Any] = field(default_factory=dict)

    def build(self, options: Mapping[str, Value]) -> Example:
        """Return the module and its data; needs torch.

        Raises
        ------
        InstanceError
            If the network cannot have a size that an option asks for.
        """
        example: Example = import_module(f".{self.family}", __name__).build(**options, **self.fixed)
        return example


BATCH = Parameter(1, "size of the batch", least=1, most=_MOST)
_FLASH = Parameter(False, "attention as one fused op")


def _size(default: int, text: str, least: int = 1, most: int = _MOST) -> Parameter:
    return Parameter(default, text, least=least, most=most)


def _image(default: int, least: int = 32) -> Parameter:
    return _size(default, "side of the image in pixels", least, 4096)


def _layers(default: int) -> Parameter:
    return _size(default, "number of blocks", most=1000)


def _seq(default: int, most: int) -> Parameter:
    return _size(default, "tokens in a sequence", most=most)


ARCHITECTURES: dict[str, Architecture] = {
    "resnet18": Architecture(
        family="resnet",
        description="residual network of 18 layers",
        parameters={"image": _image(224)},
        fixed={"blocks": (2, 2, 2, 2), "bottleneck": False},
    ),
    "resnet50": Architecture(
        family="resnet",
        description="residual network of 50 layers",
        parameters={"image": _image(224)},
        fixed={"blocks": (3, 4, 6, 3), "bottleneck": True},
    ),
    "densenet121": Architecture(
        family="densenet",
        description="densely connected network of 121 layers",
        parameters={"image": _image(224)},
        fixed={"blocks": (6, 12, 24, 16), "growth": 32},
    ),
    "efficientnet_b0": Architecture(
        family="efficientnet",
        description="inverted bottlenecks with squeeze and excitation",
        parameters={"image": _image(224)},
    ),
    "unet": Architecture(
        family="unet",
        description="U-Net without padding, for segmentation",
        parameters={"image": _image(572, least=188)},
    ),
    "vit_b_16": Architecture(
        family="vit",
        description="vision transformer, base, patches of 16 x 16",
        parameters={"image": _image(224), "layers": _layers(12), "flash": _FLASH},
        fixed={"width": 768, "heads": 12, "patch": 16},
    ),
    "swin_t": Architecture(
        family="swin",
        description="Swin transformer, tiny: attention in shifted windows",
        parameters={"image": _image(224)},
        fixed={"blocks": (2, 2, 6, 2), "width": 96, "heads": (3, 6, 12, 24)},
    ),
    "gpt2_small": Architecture(
        family="gpt2",
        description="decoder of 12 layers, width 768",
        parameters={"seq": _seq(1024, 1024), "layers": _layers(12), "flash": _FLASH},
        fixed={"width": 768, "heads": 12},
    ),
    "gpt2_medium": Architecture(
        family="gpt2",
        description="decoder of 24 layers, width 1024",
        parameters={"seq": _seq(1024, 1024), "layers": _layers(24), "flash": _FLASH},
        fixed={"width": 1024, "heads": 16},
    ),
    "bert_base": Architecture(
        family="bert",
        description="encoder of 12 layers, width 768, with its masked language model",
        parameters={"seq": _seq(512, 512), "layers": _layers(12)},
        fixed={"width": 768, "heads": 12},
    ),
    "llama_1b": Architecture(
        family="llama",
        description="decoder with RMSNorm, rotary positions, grouped-query attention and SwiGLU",
        parameters={"seq": _seq(1024, _MOST), "layers": _layers(16), "flash": _FLASH},
        fixed={"width": 2048, "heads": 32, "groups": 8, "hidden": 8192},
    ),
    "moe": Architecture(
        family="moe",
        description="decoder with a mixture of experts in every second block, dense dispatch",
        parameters={
            "seq": _seq(512, 4096),
            "layers": _size(4, "number of blocks", least=2, most=1000),
            "experts": _size(8, "number of experts", least=2, most=256),
        },
        fixed={"width": 768, "heads": 12},
    ),
    "diffusion_unet": Architecture(
        family="diffusion_unet",
        description="U-Net of a denoising diffusion model: time embedding, attention at 16 x 16",
        parameters={"image": _image(32)},
    ),
}
"""Name -> network."""
